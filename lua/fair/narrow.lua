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
--
-- The length of a Burst is rounded down to a microsecond. Returns first what
-- suits all new windows, then the most of what differs from it by no more.
local function speed_of(old, new)
  local speeds, least, most = {}, math.huge, 0
  for i, window in ipairs(new) do
    local strict, rate = 0, 0
    for _, known in ipairs(old) do
      local lengths = window.most / known.most
      local speed = (lengths < 1 and lengths or floor(lengths)) * known.length / window.length
      if lengths < 1 then rate = math.max(rate, speed) else strict = math.max(strict, speed) end
    end
    speeds[i] = 2 * strict < rate and rate or strict
    least = math.min(least, speeds[i])
  end
  for i, window in ipairs(new) do
    if speeds[i] <= least * (1 + 1 / window.length) then most = math.max(most, speeds[i]) end
  end
  return least, most
end

-- How much narrower than the new windows turns of the old ones are, in
-- millionths: 1000000 if they are not.
local function slack_of(old, new)
  local _, speed = speed_of(new, old)
  return 1000000 / math.min(1, speed)
end

-- A turn is not put off for longer than 17 years: the offset, a pause of ten
-- years included, has 15 digits. A number of the state is less than 2^52.
local MOST_SLOWED, MOST_PACE, MOST_SLACK = 2 ^ 49, 2 ^ 52 - 1, 9999999999

-- Slows the clock down up to the slot, for turns that were granted on the old
-- windows, or before these. Those may be as far apart as narrower windows than
-- the old ones want it: slack says how much narrower, in millionths. So quotas
-- that become narrower and wider again and again slow no turn twice.
--
-- Where the clock is slow already, it becomes slower by what the new windows ask
-- more. Turns behind that were granted on the old windows: they get a pace of
-- their own. If there is one behind already, the slower of the two counts. If it
-- is slower than the one before them, it begins a length earlier: their windows
-- reach back among the turns before. There may also be some of them at the last
-- slot of these.
local function narrow(old, upto, slowed)
  local new = windows_of(ARGV[1])
  local stop = math.max(upto, slow_until, then_until)
  if stop <= now then return end
  local newer, speed, paced = upto > math.max(slow_until, then_until), speed_of(old, new), math.max(1000000, slowed)
  for _, change in ipairs(units_change) do speed = math.min(speed, (speed_of(change[1], change[2]))) end
  must = true
  if speed >= 1 then
    local by = slack_of(old, new)
    for _, change in ipairs(units_change) do by = math.min(by, slack_of(change[1], change[2])) end
    slack = math.min(MOST_SLACK, floor(slack * by / 1000000))
    if slow_until == 0 and slack > 1000000 then slow_until, slow_pace = stop, 1000000 end
    return
  end
  local most = math.min(floor(MOST_SLOWED / (stop - now) * 1000000), MOST_PACE)
  local function rounded(pace)
    return math.max(1000000, math.min(most, math.ceil(pace * (1 - 1e-15)))) -- 1e6 / 100 * 100 is 1e6
  end
  local slower = math.max(1, 1000000 / speed / slack)
  if slow_until <= now then
    slow_until, slow_pace = stop, rounded(math.max(newer and 1000000 / speed or 0, paced * slower))
  else
    slow_pace = math.max(slow_pace, rounded(paced * slower))
    if then_until > 0 then then_pace = math.max(then_pace, rounded(then_pace * slower)) end
    local own, from = rounded(1000000 / speed), math.max(slow_until, then_until)
    local last_pace = then_until > 0 and then_pace or slow_pace
    if slow_pace < own and upto >= from then slow_until = math.min(slow_until, from - old[1].length) end
    if newer or last_pace < own and upto == from then
      then_until, then_pace = stop, math.max(then_pace, own)
      forget_slow()
    end
  end
  slack = newer and 1000000 or math.max(1000000, floor(math.min(MOST_SLACK, slack * speed * slower)))
  stand_still(rest)
end
