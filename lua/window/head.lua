-- The head of every script of a sliding window: keys, clock, rule.
--
-- The keys and what they hold are those of Redisson's RRateLimiter, which may
-- be at work on them at the same time.
--
-- KEYS[1]  hash: rate, interval in ms, type ('0' overall, '1' per client),
--          keepAliveTime in ms ('0' or absent: none)
-- KEYS[2]  string: permits left, overall     KEYS[3]  the same for this client
-- KEYS[4]  zset: the grants, overall         KEYS[5]  the same for this client
--
-- A grant is a member: one length byte, that many random bytes, its permits as
-- 4 bytes, little-endian. Its score is when it was made, in ms.
--
-- Takes    KEYS
-- Leaves   hash, LONGEST; now, now_down, now_up: the server's time; rate,
--          interval, per_client, keep_alive: the rule, set by load; decimal,
--          natural, permits_of, load
-- Errors   STATE: a key holds what cannot be read. Nothing was changed.

local hash = KEYS[1]

-- The longest interval and keepAliveTime: 100 years. In µs and added to the time
-- it is below 2^53.
local LONGEST = 3153600000000

-- Read once: before Redis 7.2 time goes on inside a script. A score is now
-- rounded up. A grant counts until now rounded down has reached its score plus
-- the interval. So the window is strict to the microsecond.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2] -- µs, as every wait
local now_down, now_up = math.floor(now / 1000), math.ceil(now / 1000) -- ms

local rate, interval, per_client, keep_alive

-- A number as text. tostring keeps 14 digits only.
local function decimal(number) return string.format('%.0f', number) end

-- The number that a field of the hash holds.
local function natural(text, field, least, most)
  local number = text and string.find(text, '^%d+$') and tonumber(text)
  if not number or number < least or number > most then
    error('STATE field ' .. field .. ' is not readable', 0)
  end
  return number
end

-- The permits of a grant.
local function permits_of(member)
  local a, b, c, d = string.byte(member, -4, -1)
  if not d or #member ~= string.byte(member, 1) + 5 then
    error('STATE a grant is not readable', 0)
  end
  return a + b * 256 + c * 65536 + d * 16777216
end

-- Reads the rule and returns whether there is one.
local function load()
  local rule = redis.call('HMGET', hash, 'rate', 'interval', 'type', 'keepAliveTime')
  if not rule[1] and redis.call('EXISTS', hash) == 0 then return false end
  rate = natural(rule[1], 'rate', 1, 2 ^ 53)
  interval = natural(rule[2], 'interval', 1, LONGEST)
  per_client = natural(rule[3], 'type', 0, 1) == 1
  keep_alive = natural(rule[4] or '0', 'keepAliveTime', 0, LONGEST)
  return true
end

