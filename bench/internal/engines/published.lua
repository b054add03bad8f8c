-- The published queue in a TTL, as its users have it: kept here with its faults, to be measured beside the mended one.
--
-- KEYS[1] -> count of permits that are under way; its TTL is meant to be the time until the last of them
-- ARGV[1] -> limit, how many may go at once
-- ARGV[2] -> interval, milliseconds a permit
-- ARGV[3] -> timeout, milliseconds that the caller would wait
-- Returns milliseconds to sleep; those of the timeout or more mean: timed out
local key = KEYS[1]
local limit, interval, timeout = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local count = tonumber(redis.call('GET', key) or '0')
local pttl = math.max(0, redis.call('PTTL', key))
local current = count - math.max(0, math.floor((count * interval - pttl) / interval))

if current + 1 <= limit then
  redis.call('PSETEX', key, pttl + interval, current + 1)
  return 0
end
if pttl < timeout then
  redis.call('PSETEX', key, pttl + interval, current + 1)
  return pttl
end
redis.call('PSETEX', key, pttl, current)
return pttl
