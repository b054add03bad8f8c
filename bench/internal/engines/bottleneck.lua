-- Registers a job with a limiter of Bottleneck, as its documentation describes it.
-- KEYS[1] -> the state of the limiter
-- ARGV[1] -> reservoir: jobs until the next refill, 0 for no reservoir
-- ARGV[2] -> reservoirRefreshInterval, ms
-- ARGV[3] -> minTime: ms from one job to the next
-- ARGV[4] -> the job's weight
-- Returns {1, ms until the job may run} or, if the reservoir is empty, {0, ms until its refill}
local state = KEYS[1]
local amount, interval, min_time, weight =
  tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local held = redis.call('HMGET', state, 'reservoir', 'refilled', 'next')
local reservoir = tonumber(held[1]) or amount
local refilled = tonumber(held[2]) or now
local wait = math.max((tonumber(held[3]) or now) - now, 0)
if now >= refilled + interval then
  reservoir, refilled = amount, now
end
if amount > 0 and reservoir < weight then
  return {0, refilled + interval - now}
end
redis.call('HSET', state, 'reservoir', reservoir - weight, 'refilled', refilled, 'next', now + wait + min_time)
redis.call('PEXPIRE', state, wait + 10 * (interval + min_time))
return {1, wait}
