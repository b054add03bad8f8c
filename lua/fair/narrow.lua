-- Slows the queue's clock down where its quotas have become narrower: turns
-- that are held keep their slots, and come as far apart as the new ones allow.
-- Wider quotas change nothing for them: no turn comes sooner than was told.
--
-- Takes    what epochs.lua leaves
-- Leaves   narrow
--
-- A change of the quotas ends a stretch of the clock. It keeps the windows that
-- its turns were granted on. So whatever quotas come later, its pace is what the
-- narrowest of them asks of these windows. They are words behind the unit, which
-- is '' for calls: ':20/1000000/80;tokens:900/60000000/64'.

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
      local speed = (lengths < 1 and lengths or floor(lengths)) * known.length / window.length
      if lengths < 1 then rate = math.max(rate, speed) else strict = math.max(strict, speed) end
    end
    least = math.min(least, 2 * strict < rate and rate or strict)
  end
  return least
end

-- The pace that suits turns that were granted on some windows, in a queue of
-- others.
local function pace_of(under, new)
  local speed = 1
  for unit, words in string.gmatch(under, '([%w_-]*):([%d/,]+)') do
    if new[unit] then speed = math.min(speed, speed_of(windows_of(words), new[unit])) end
  end
  return 1000000 / speed
end

local function word_of(unit, of_windows)
  local words = {}
  for i, window in ipairs(of_windows) do
    words[i] = format('%d/%d/%d', window.most, window.length, window.cells)
  end
  return format('%s:%s', unit, table.concat(words, ','))
end

local function add_word(stretch, word)
  if not string.find(format(';%s;', stretch.under), format(';%s;', word), 1, true) then
    stretch.under = format('%s;%s', stretch.under, word)
  end
end

-- Adds a stretch of turns that were granted on some windows. These reach back
-- among the turns before, for their longest length. There may also be some of
-- them at the last slot of these.
local function add_stretch(words, longest, upto)
  local before = slow_until()
  local from = math.min(before, upto) - longest
  for i = #slow, 1, -1 do
    local stretch = slow[i]
    if from < stretch.upto then
      if from > slow_until(i - 1) then
        table.insert(slow, i, { upto = from, pace = stretch.pace, under = stretch.under })
      end
      for _, word in ipairs(words) do add_word(stretch, word) end
    end
  end
  if upto > before then slow[#slow + 1] = { upto = upto, pace = 1000000, under = table.concat(words, ';') } end
end

-- For each unit two windows that are no narrower than any of its own: one is as
-- long as the longest, one as the longest of the shortest.
local function widest(under)
  local units, known = {}, {}
  for unit, words in string.gmatch(under, '([%w_-]*):([%d/,]+)') do
    local own = windows_of(words)
    if not known[unit] then units[#units + 1], known[unit] = unit, { own[1], own[#own] } end
    for i, window in ipairs({ own[1], own[#own] }) do
      local wide = known[unit][i]
      local length = math.max(wide.length, window.length)
      local most = math.max(wide.most * math.ceil(length / wide.length), window.most * math.ceil(length / window.length))
      known[unit][i] = { most = math.min(most, MOST_SLOT - 1), length = length, cells = 1 }
    end
  end
  for i, unit in ipairs(units) do units[i] = word_of(unit, known[unit]) end
  return table.concat(units, ';')
end

-- Makes the stretches short enough for the notes, which have 332 letters besides
-- at most: the first two become one. What is still too long has many units: then
-- it keeps the calls.
local function join_stretches()
  local room = NOTES - 400
  while slow[2] and #stretches() > room do
    local one, two = table.remove(slow, 1), slow[1]
    two.pace, two.under = math.max(one.pace, two.pace), widest(format('%s;%s', one.under, two.under))
  end
  if #stretches() > room then slow[1].under = match(widest(slow[1].under), '^[^;]*') end
end

-- A turn is not put off for longer than 17 years: the offset, a pause of ten
-- years included, has 15 digits. A number of the state is less than 2^52.
local MOST_SLOWED, MOST_PACE = 2 ^ 49, 2 ^ 52 - 1

-- Slows the clock down for turns that were granted on the old windows up to a
-- slot and a sequence, and for those before them. A stretch that knows nothing of
-- a unit has turns of its old windows.
local function narrow(old, upto, granted_upto)
  local new, longest, had, has = { [''] = windows_of(ARGV[1]) }, old[1].length, {}, {}
  had[1], has[1] = word_of('', old), word_of('', new[''])
  for i, change in ipairs(units_change) do
    new[change.unit], longest = change[2], math.max(longest, change[1][1].length)
    had[i + 1], has[i + 1] = word_of(change.unit, change[1]), word_of(change.unit, change[2])
    for _, stretch in ipairs(slow) do
      if not string.find(stretch.under, format(';%s:', change.unit), 1, true) then add_word(stretch, had[i + 1]) end
    end
  end
  local changes = table.concat(had, ';') ~= table.concat(has, ';')
  if changes and upto > now and granted_upto > paced then add_stretch(had, longest, upto) end
  if not slow[1] then return end
  must, paced = true, math.max(paced, granted_upto)
  local most = math.min(floor(MOST_SLOWED / (slow_until() - now) * 1000000), MOST_PACE)
  for _, stretch in ipairs(slow) do
    local pace = math.ceil(pace_of(stretch.under, new) * (1 - 1e-15)) -- 1e6 / 100 * 100 is 1e6
    stretch.pace = math.max(stretch.pace, math.min(most, pace))
  end
  join_stretches()
  stand_still(rest)
end
