-- Slows the queue's clock down where its quotas have become narrower: turns
-- that are held keep their slots, and come as far apart as the new ones allow.
--
-- Takes    what begin.lua leaves; changed and begins, of quota.lua
-- Leaves   begin

-- How much faster than on the old windows turns of theirs may come on the new
-- ones: less than 1 if that is slower. In a stretch of the clock that is whole
-- old lengths long there are as many times the old permits at most, which is
-- strict where a length of them holds no more than the new permits. One that
-- holds more tells the rate: then turns come as often on the whole, but a new
-- window may hold as many as the old one. It counts where none is strict, or
-- where those that are would slow turns down twice as much.
local function speed_of(old, new)
  local least = math.huge
  for _, window in ipairs(new) do
    local strict, rate = 0, 0
    for _, known in ipairs(old) do
      local lengths = window.most / known.most
      local speed = (lengths < 1 and lengths or math.floor(lengths)) * known.length / window.length
      if lengths < 1 then rate = math.max(rate, speed) else strict = math.max(strict, speed) end
    end
    least = math.min(least, 2 * strict < rate and rate or strict)
  end
  return least
end

-- A turn is not put off for longer than this, 71 years.
local MOST_SLOWED = 2 ^ 51

-- The largest number that is read again; see notes.lua. A turn that is held for
-- a microsecond then comes after an hour and a quarter.
local MOST_PACE = 2 ^ 52 - 1

-- Lets the clock run at the given speed, in that of now, until the last turn
-- that is held; but never faster than the server's.
local function change_speed(queue, speed)
  local _, _, newest = bounds(queue)
  local stop = speed < 1 and math.max(newest, queue.slow_until) or queue.slow_until
  if stop <= queue.now then return end
  local pace = math.ceil(math.max(1000000, queue.slow_pace) / speed * (1 - 1e-15)) -- 1e6 / 100 * 100 is 1e6
  pace = math.min(pace, math.floor(MOST_SLOWED / (stop - queue.now) * 1000000), MOST_PACE)
  if pace <= 1000000 then stop, pace = 0, 0 end
  queue.slow_until, queue.slow_pace = stop, pace
  stand_still(queue, queue.rest)
end

local begin_unchanged = begin

-- As begin, of a caller whose quotas have just become others. The first of them
-- changes the clock. The queue is then written in any case, as if something had
-- been lost.
local function begin(queue)
  local before, word = queue.word, sub(head, 7, -4)
  local touched, lost = begin_unchanged(queue)
  if not changed or not state or word == '' or word == before then return touched, lost end
  -- A limiter that begins while others keep to quotas of their own has found no
  -- change: the clock runs slower for that already.
  if begins and queue.slow_until > 0 then return touched, lost end
  change_speed(queue, speed_of(windows_of(before), windows_of(word)))
  return true, true
end
