-- Slows the queue's clock down where its quotas have become narrower: turns
-- that are held keep their slots, and come as far apart as the new ones allow.
-- Wider quotas change nothing for them: no turn comes sooner than was told.
--
-- Takes    what epochs.lua leaves
-- Leaves   narrow

-- How much faster than on the old windows turns of theirs may come on the new
-- ones: less than 1 if that is slower. In a stretch of the clock that is whole
-- old lengths long there are as many times the old permits at most, which is
-- strict where a length of them holds no more than the new permits. One that
-- holds more tells the rate: then turns come as often on the whole, but a new
-- window may hold as many as the old one. It counts where none is strict, or
-- where those that are would slow turns down twice as much.
local function speed_of(old)
  local least = math.huge
  for w = 6, windows_end, 3 do
    local strict, rate = 0, 0
    for _, known in ipairs(old) do
      local lengths = argv[w] / known.most
      local speed = (lengths < 1 and lengths or floor(lengths)) * known.length / argv[w + 1]
      if lengths < 1 then rate = math.max(rate, speed) else strict = math.max(strict, speed) end
    end
    least = math.min(least, 2 * strict < rate and rate or strict)
  end
  return least
end

-- A turn is not put off for longer than 17 years: the offset, a pause of ten
-- years included, has 15 digits. A number of the state is less than 2^52.
local MOST_SLOWED, MOST_PACE = 2 ^ 49, 2 ^ 52 - 1

-- Slows the clock down up to the slot, for turns that were granted on the old
-- windows and are slowed already.
local function narrow(old, upto, slowed)
  local stop = math.max(upto, slow_until)
  local speed = speed_of(old)
  if stop <= now or speed >= 1 then return end
  local pace = math.ceil(math.max(1000000, slowed) / speed * (1 - 1e-15)) -- 1e6 / 100 * 100 is 1e6
  pace = math.max(pace, slow_pace)
  pace = math.min(pace, floor(MOST_SLOWED / (stop - now) * 1000000), MOST_PACE)
  if pace <= 1000000 then return end
  slow_until, slow_pace, must = stop, pace, true
  stand_still(rest)
end
