-- What the scripts of a sliding window share; each of them, window_*.lua, is run with this in front. The keys and their content are those of
-- Redisson's RRateLimiter, which may be at work on them at the same time.
--
-- KEYS[1]  hash: rate, interval in ms, type ('0' overall, '1' per client), keepAliveTime in ms ('0' or absent: none)
-- KEYS[2]  string: permits left, overall          KEYS[3]  the same for this client
-- KEYS[4]  zset: the grants, overall              KEYS[5]  the same for this client
--
-- A grant is a member: one length byte, that many random bytes, its permits as 4 bytes, little-endian. Its score is when it was made, in ms.
--
-- Errors   STATE: a key holds what cannot be read. Nothing was changed.
--
-- Strict to the microsecond with scores in milliseconds: a score is the server's time rounded up, and a grant counts until its score plus the
-- interval is not after the server's time rounded down. Of the string and the zset, the zset is believed: what is left is the rate less the
-- permits in it. They are added up anew in each run, unless they are too many for that; then the string is believed, as far as the number of
-- grants allows. A score in the future, from a peer whose clock is ahead or from before this server's clock went back, counts as now.

local hash = KEYS[1]

local COUNTED = 1000          -- most grants that one run adds up, about 0.2 ms
local LONGEST = 3153600000000 -- interval and keepAliveTime, 100 years: in µs and added to the time it is still below 2^53

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2] -- µs, as all that is called wait
local now_down, now_up = math.floor(now / 1000), math.ceil(now / 1000)

local rate, interval, per_client, keep_alive -- the rule, by load
local left_key, left_text                    -- the string, by load
local grants_key                             -- the zset, by load
local gone, held                             -- how many grants no longer count, and how many do, by survey
local left                                   -- permits left; under 0 where the rate was lowered; by survey
local lapsed                                 -- permits in the oldest of those that are gone, at most COUNTED, by survey
local sums                                   -- running totals of the oldest that count, at most COUNTED; by add_up, when they are needed
local scores = {}                            -- of those that were looked at

-- A time in ms or a number of permits as text: tostring would keep 14 digits of it.
local function decimal(number)
  return string.format('%.0f', number)
end

local function natural(text, field, least, most)
  local number = text and string.find(text, '^%d+$') and #text <= 16 and tonumber(text)
  if not number or number < least or number > most then
    error('STATE field ' .. field .. ' is not readable', 0)
  end
  return number
end

local function permits_of(member)
  local a, b, c, d = string.byte(member, -4, -1)
  if not d or #member ~= string.byte(member, 1) + 5 then
    error('STATE a grant is not readable', 0)
  end
  return a + b * 256 + c * 65536 + d * 16777216
end

-- Reads the rule and says whether there is one.
local function load()
  local rule = redis.call('HMGET', hash, 'rate', 'interval', 'type', 'keepAliveTime')
  if not (rule[1] or rule[2] or rule[3]) and redis.call('EXISTS', hash) == 0 then
    return false
  end
  rate = natural(rule[1], 'rate', 1, 2 ^ 53)
  interval = natural(rule[2], 'interval', 1, LONGEST)
  per_client = natural(rule[3], 'type', 0, 1) == 1
  keep_alive = natural(rule[4] or '0', 'keepAliveTime', 0, LONGEST)
  return true
end

-- Adds up the oldest grants that count, at most so many, and returns their permits.
local function add_up(most)
  sums = {}
  local total = 0
  for i, member in ipairs(redis.call('ZRANGE', grants_key, gone, gone + most - 1)) do
    total = total + permits_of(member)
    sums[i] = total
  end
  return total
end

-- Reads what there is under the rule. It writes nothing and reads all that is read, so that what is unreadable is found before a write.
local function survey()
  left_key, grants_key = KEYS[2], KEYS[4]
  if per_client then
    left_key, grants_key = KEYS[3], KEYS[5]
  end
  left_text = redis.call('GET', left_key)
  if left_text and not (#left_text <= 16 and string.find(left_text, '^-?%d+$')) then
    error('STATE the number of permits left is not readable', 0)
  end

  local gone_at = decimal(now_down - interval)
  held = redis.call('ZCOUNT', grants_key, '(' .. gone_at, '+inf')
  gone = redis.call('ZCARD', grants_key) - held
  lapsed = 0
  if gone > 0 then
    for _, member in ipairs(redis.call('ZRANGE', grants_key, 0, math.min(gone, COUNTED) - 1)) do
      lapsed = lapsed + permits_of(member)
    end
  end
  if held <= COUNTED or not left_text then
    left = rate - add_up(held)
  else
    left = math.min(tonumber(left_text) + lapsed, rate - held)
  end
end

-- Removes the grants that no longer count, at most COUNTED in one run. If more are left it returns false: the run ends here and is asked again.
local function settle()
  if gone > 0 then
    redis.call('ZREMRANGEBYRANK', grants_key, 0, math.min(gone, COUNTED) - 1)
  end
  if gone > COUNTED then
    if left_text then
      redis.call('INCRBY', left_key, decimal(lapsed))
    end
    return false
  end
  gone = 0
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', grants_key, '(' .. decimal(now_up), '+inf', 'LIMIT', 0, 100)) do
    redis.call('ZADD', grants_key, decimal(now_up), member)
  end
  return true
end

-- The time until n permits are free, at least 1 µs. Where more than COUNTED grants have to leave, that of the last one looked at: never too long.
local function wait_for(n)
  if n <= left then return 0 end
  if not sums then add_up(COUNTED) end
  local low, high = 1, #sums
  while low < high do
    local middle = math.floor((low + high) / 2)
    if sums[middle] >= n - left then
      high = middle
    else
      low = middle + 1
    end
  end
  if not scores[low] then
    local rank = gone + low - 1
    scores[low] = math.min(tonumber(redis.call('ZRANGE', grants_key, rank, rank, 'WITHSCORES')[2]), now_up)
  end
  return math.max(1, (scores[low] + interval) * 1000 - now)
end

-- Writes what is left, and how long the keys live: as long as keepAliveTime says, else as long as the hash.
local function save()
  if held <= COUNTED then
    left = math.max(0, left)
  end
  local text = decimal(left)
  if text ~= left_text and (left_text or held > 0) then
    redis.call('SET', left_key, text)
  end
  local life = keep_alive
  if life > 0 then
    redis.call('PEXPIRE', hash, decimal(life))
  else
    life = redis.call('PTTL', hash)
  end
  for _, key in ipairs({ left_key, grants_key }) do
    if life > 0 then
      redis.call('PEXPIRE', key, decimal(life))
    else
      redis.call('PERSIST', key)
    end
  end
end

