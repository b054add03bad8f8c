-- Takes a slot of a queue of three units, or adjusts what one holds.
--
-- KEYS[1]  members '<id> <requests> <input> <output>' by slot
-- ARGV     'take', id, the client's clock, window, requests, input, output, and the quota of each;
--          or 'adjust', id, output
--
-- Returns  the slot, as text
local key, what, id = KEYS[1], ARGV[1], ARGV[2]

local function parts_of(member)
  local name, requests, input, output = string.match(member, '^(.+) (%d+) (%d+) (%d+)$')
  return name, { tonumber(requests), tonumber(input), tonumber(output) }
end

if what == 'adjust' then
  local all = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do
    local name, amounts = parts_of(all[i])
    if name == id then
      redis.call('ZREM', key, all[i])
      redis.call('ZADD', key, all[i + 1], string.format('%s %d %d %d', id, amounts[1], amounts[2], ARGV[3]))
    end
  end
  return ''
end

local now, window = tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now - window))
local held = {}
local all = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
for i = 1, #all, 2 do
  local _, amounts = parts_of(all[i])
  held[#held + 1] = { slot = tonumber(all[i + 1]), amounts = amounts }
end

local slot = math.max(now, #held > 0 and held[#held].slot or 0)
for unit = 1, 3 do
  local room = tonumber(ARGV[7 + unit]) - tonumber(ARGV[4 + unit])
  for i = #held, 1, -1 do
    room = room - held[i].amounts[unit]
    if room < 0 then
      slot = math.max(slot, held[i].slot + window)
      break
    end
  end
end
redis.call('ZADD', key, string.format('%d', slot), string.format('%s %d %d %d', id, ARGV[5], ARGV[6], ARGV[7]))
redis.call('PEXPIRE', key, string.format('%d', 2 * window / 1000))
return string.format('%d', slot)
