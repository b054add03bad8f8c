-- Counts the grants under the rule and the permits that are left. It only
-- reads, and it reads all that a script goes on to use, so that a script finds
-- what is unreadable before its first write.
--
-- A grant is held while it counts, and has lapsed once it does not. Lapsed
-- grants stay in the zset until a script removes them.
--
-- Of the string and the zset, the zset is believed: what is left is the rate
-- less the permits of the grants held. That is below 0 once the rate was
-- lowered. More than COUNTED grants are added up only if there is no string.
-- Otherwise what is left is the string plus what has lapsed, and at most the
-- rate less one permit for each grant held.
--
-- Takes    KEYS; rate, interval, per_client, COUNTED, now_down, decimal,
--          permits_of
-- Leaves   left_key, grants_key   the keys that the rule's type chooses
--          left_text              what the string holds, or false
--          held, lapsed           how many grants
--          lapsed_permits         of the oldest that lapsed, at most COUNTED
--          left                   permits left; too low if more than COUNTED
--                                 are held and more than COUNTED have lapsed
--          totals                 nil, or the running totals of the oldest held
--          permits_in, add_up, count   functions

local left_key, grants_key
local left_text
local held, lapsed
local lapsed_permits
local left
local totals

-- The permits of so many grants from a rank on.
local function permits_in(rank, grants)
  local permits = 0
  if grants > 0 then
    for _, member in ipairs(redis.call('ZRANGE', grants_key, rank, rank + grants - 1)) do
      permits = permits + permits_of(member)
    end
  end
  return permits
end

-- Adds up so many of the oldest grants held, sets totals, returns the sum.
local function add_up(most)
  totals = {}
  local permits = 0
  for i, member in ipairs(redis.call('ZRANGE', grants_key, lapsed, lapsed + most - 1)) do
    permits = permits + permits_of(member)
    totals[i] = permits
  end
  return permits
end

local function count()
  left_key, grants_key = KEYS[2], KEYS[4]
  if per_client then
    left_key, grants_key = KEYS[3], KEYS[5]
  end
  left_text = redis.call('GET', left_key)
  if left_text and not (#left_text <= 16 and string.find(left_text, '^-?%d+$')) then
    error('STATE the number of permits left is not readable', 0)
  end

  held = redis.call('ZCOUNT', grants_key, '(' .. decimal(now_down - interval), '+inf')
  lapsed = redis.call('ZCARD', grants_key) - held
  lapsed_permits = permits_in(0, math.min(lapsed, COUNTED))
  if held <= COUNTED or not left_text then
    left = rate - add_up(held)
  else
    left = math.min(tonumber(left_text) + lapsed_permits, rate - held)
  end
end

