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
-- Takes    KEYS and what head leaves
-- Leaves   left_key, grants_key   the keys that the rule's type chooses
--          left_text              what the string holds, or false
--          held, lapsed           how many grants
--          lapsed_permits         of those that lapsed
--          left                   permits left
--          totals                 nil, or the running totals of the grants held
--          COUNTED, add_up, count

local COUNTED = 1000 -- grants, which take about 0.2 ms

local left_key, grants_key, left_text
local held, lapsed, lapsed_permits, left, totals

-- The permits of so many grants from a rank on, and their running totals.
local function add_up(rank, grants)
  local sum, sums = 0, {}
  if grants > 0 then
    for i, grant in ipairs(redis.call('ZRANGE', grants_key, rank, rank + grants - 1)) do
      sum = sum + permits_of(grant)
      sums[i] = sum
    end
  end
  return sum, sums
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
  lapsed_permits = add_up(0, lapsed)
  if held <= COUNTED or not left_text then
    local permits, sums = add_up(lapsed, held)
    left, totals = rate - permits, sums
  else
    left = math.min(tonumber(left_text) + lapsed_permits, rate - held)
  end
end

