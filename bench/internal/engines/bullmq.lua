-- Deals jobs to the groups of a BullMQ Pro queue, as its documentation
-- describes it.
-- KEYS[1] -> counters: jobs and end of the time of the queue's limit, and of each group's;
--            each group's jobs that wait, and those that were dealt and not yet taken
-- KEYS[2] -> the groups that have jobs, in the order of their next turn
-- ARGV[1] -> the group that asks
-- ARGV[2] -> its jobs that wait
-- ARGV[3], ARGV[4] -> max and duration (ms) of the queue's limit
-- ARGV[5], ARGV[6] -> those of each group's limit, max 0 for none
-- Returns 0 if a job of the group may run, or the ms after which to ask again
local counters, groups = KEYS[1], KEYS[2]
local asking, jobs = ARGV[1], tonumber(ARGV[2])
local max, duration = tonumber(ARGV[3]), tonumber(ARGV[4])
local group_max, group_duration = tonumber(ARGV[5]), tonumber(ARGV[6])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function number(field)
  return tonumber(redis.call('HGET', counters, field)) or 0
end

-- A limit counts from its first job on, for its duration.
local function limited(of, most)
  local ends = number('ends' .. of)
  return most > 0 and ends > now and number('count' .. of) >= most, ends - now
end

local function count(of, lasting)
  if number('ends' .. of) <= now then
    redis.call('HSET', counters, 'count' .. of, 0, 'ends' .. of, now + lasting)
  end
  redis.call('HINCRBY', counters, 'count' .. of, 1)
end

redis.call('HSET', counters, 'waiting:' .. asking, jobs)
if number('dealt:' .. asking) < jobs and redis.call('HSETNX', counters, 'listed:' .. asking, 1) == 1 then
  redis.call('RPUSH', groups, asking)
end

-- Groups take turns. One that is limited is passed over.
local passed_over = 0
while passed_over < redis.call('LLEN', groups) and not limited('', max) do
  local group = redis.call('LPOP', groups)
  local more = true
  if limited(':' .. group, group_max) then
    passed_over = passed_over + 1
  else
    passed_over = 0
    count('', duration)
    count(':' .. group, group_duration)
    more = redis.call('HINCRBY', counters, 'dealt:' .. group, 1) < number('waiting:' .. group)
  end
  if more then
    redis.call('RPUSH', groups, group)
  else
    redis.call('HDEL', counters, 'listed:' .. group)
  end
end
redis.call('PEXPIRE', counters, 10 * (duration + group_duration))
redis.call('PEXPIRE', groups, 10 * (duration + group_duration))

if number('dealt:' .. asking) > 0 then
  redis.call('HINCRBY', counters, 'dealt:' .. asking, -1)
  redis.call('HINCRBY', counters, 'waiting:' .. asking, -1)
  return 0
end
local full, rest = limited('', max)
if not full then
  full, rest = limited(':' .. asking, group_max)
end
return math.max(rest, 1)
