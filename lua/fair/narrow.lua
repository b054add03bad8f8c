-- Slows the queue's clock down where its quotas have become narrower: turns
-- that are held keep their slots, and come as far apart as the new ones allow.
-- Wider quotas change nothing for them: no turn comes sooner than was told.
--
-- Takes    what epochs.lua leaves, with slow and paced of header.lua, stretches
--          and slow_until of clock.lua; asked_units: the words of the caller's units
-- Leaves   text_changes, each_unit, word_of, asked_words, joined, join_stretches, add_stretch,
--          pace_stretches
--
-- A change of the quotas ends a stretch of the clock. It keeps the windows that
-- its turns were granted on. So whatever quotas come later, its pace is what the
-- narrowest of them asks of these windows. They are words behind the unit, which
-- is '' for calls: ':20/1000000/80;tokens:900/60000000/64'.

-- Whether other quotas are stored than those that the state goes by.
local function text_changes()
  local before, stored = match(head, '(%S+)\n$'), sub(ARGV[1], -9, -2)
  return before ~= stored and before ~= '--------' and stored ~= '' and stored ~= '--------'
end

-- Each unit of such a text, and its words.
local function each_unit(under)
  return string.gmatch(under, '([%w_-]*):([%d/,]+)')
end

-- How much faster than on the old windows turns of theirs may come on the new
-- ones: less than 1 if that is slower. Returns that of the new window that asks
-- for most, and the length of the longest that asks for something.
--
-- An old window of 5 in a second lets 10 go in two seconds at most. So a new one
-- of 10 in 6 s is kept for sure if two seconds take six: a third as fast. That is
-- strict. An old window of 20 in a second holds more than the new 10, so it tells
-- a rate only: half as many turns in 6 s is a twelfth as fast. Then turns come as
-- often on the whole, but a new window may hold 20. The rate counts where no old
-- window is strict, or where those that are would be less than half as fast.
local function speed_of(old, new)
  local least, length = math.huge, 0
  for _, window in ipairs(new) do
    local strict, rate = 0, 0
    for _, known in ipairs(old) do
      local lengths = window.most / known.most
      local speed = (lengths < 1 and lengths or floor(lengths)) * known.length / window.length
      if lengths < 1 then rate = math.max(rate, speed) else strict = math.max(strict, speed) end
    end
    local speed = 2 * strict < rate and rate or strict
    if speed < 1 then length = math.max(length, window.length) end
    least = math.min(least, speed)
  end
  return least, length
end

-- The pace that suits turns that were granted on some windows, in a queue of
-- others, and how long the longest window is that asks for less than the usual.
local function pace_of(under, new)
  local least, length = 1, 0
  for unit, words in each_unit(under) do
    if new[unit] then
      local speed, longest = speed_of(windows_of(words), new[unit])
      least, length = math.min(least, speed), math.max(length, longest)
    end
  end
  return math.ceil(1000000 / least * (1 - 1e-15)), length -- 1e6 / 100 * 100 is 1e6
end

local function word_of(unit, of_windows)
  local words = {}
  for i, window in ipairs(of_windows) do
    words[i] = format('%d/%d/%d', window.most, window.length, window.cells)
  end
  return format('%s:%s', unit, table.concat(words, ','))
end

-- The windows of the caller.
local function asked_words()
  return table.concat({ word_of('', windows_of(ARGV[1])), unpack(asked_units) }, ';')
end

-- For each unit two windows that are no narrower than any of its own: one is as
-- long as the longest, one as the longest of the shortest.
local function widest(under)
  local units, known = {}, {}
  for unit, words in each_unit(under) do
    local own = windows_of(words)
    if not known[unit] then units[#units + 1], known[unit] = unit, { own[1], own[#own] } end
    for i, window in ipairs({ own[1], own[#own] }) do
      local wide = known[unit][i]
      local length = math.max(wide.length, window.length)
      local most = window.most * math.ceil(length / window.length)
      most = math.max(most, wide.most * math.ceil(length / wide.length))
      known[unit][i] = { most = math.min(most, MOST_SLOT - 1), length = length, cells = 1 }
    end
  end
  for i, unit in ipairs(units) do units[i] = word_of(unit, known[unit]) end
  return table.concat(units, ';')
end

-- The words of two stretches, each once. If they are many, wider ones.
local function joined(one, two)
  if one == '' then return two end
  local all = one
  for word in string.gmatch(two, '[^;]+') do
    if not string.find(format(';%s;', all), format(';%s;', word), 1, true) then all = format('%s;%s', all, word) end
  end
  return #all > 150 and widest(all) or all
end

-- Makes the stretches short enough for the notes, which have 359 letters besides
-- at most: it joins neighbours that this slows least. What is still too long has
-- many units of different callers: then it keeps the calls.
local function join_stretches()
  local room = NOTES - 400
  while slow[2] and #stretches() > room do
    local least, at = math.huge, 1
    for i = 1, #slow - 1 do
      local faster, behind = slow[i].pace - slow[i + 1].pace, slow[i].upto
      local cost = faster < 0 and -faster * (behind - slow_until(i - 1)) or faster * (slow[i + 1].upto - behind)
      if cost < least then least, at = cost, i end
    end
    local one, two = table.remove(slow, at), slow[at]
    two.pace, two.under = math.max(one.pace, two.pace), joined(one.under, two.under)
  end
  if #stretches() > room then slow[1].under = widest(slow[1].under) end
  if #stretches() > room then slow[1].under = match(slow[1].under, '^[^;]*') end
end

-- Adds a stretch of turns that were granted on some windows, from a slot on up to
-- another and to a sequence. Some of them may stand in a stretch that is there, or
-- at the last slot of the turns before.
local function add_stretch(under, from, upto, granted_upto)
  local before = slow_until()
  if upto <= now or granted_upto <= paced and upto <= before then return end
  paced = math.max(paced, granted_upto)
  for _, stretch in ipairs(slow) do
    if stretch.upto > from then stretch.under = joined(stretch.under, under) end
  end
  if upto > before then
    slow[#slow + 1] = { upto = upto, pace = 1000000, under = under }
    return
  end
  local newest = slow[#slow] -- its last label gets a stretch of its own
  slow[#slow + 1] = { upto = before, pace = newest.pace, under = joined(newest.under, under) }
  newest.upto = before - 1
  if newest.upto <= slow_until(#slow - 2) then table.remove(slow, #slow - 1) end
end

-- A turn is not put off for longer than 17 years, by all changes together: the
-- offset, a pause of ten years included, has 15 digits. A number of the state is
-- less than 2^52.
local MOST_SLOWED, MOST_PACE = 2 ^ 49, 2 ^ 52 - 1

-- Lets a stretch be as slow as a pace, as far as that leaves time for.
local function slow_down(i, pace)
  local stretch, length = slow[i], slow_until(i) - slow_until(i - 1)
  local spare = MOST_SLOWED - (server - now) - (slow_until() - moment_of(now))
  stretch.pace = math.max(stretch.pace, math.min(pace, stretch.pace + floor(spare / length * 1000000), MOST_PACE))
end

-- Lets the clock be as slow before a stretch, from a label on.
local function slow_before(i, from, pace)
  for j = i - 1, 1, -1 do
    local stretch, begins = slow[j], slow_until(j - 1)
    if stretch.upto <= from then return end
    if stretch.pace < pace and begins < from then
      table.insert(slow, j, { upto = from, pace = stretch.pace, under = stretch.under })
      return slow_down(j + 1, pace)
    end
    slow_down(j, pace)
  end
end

-- Slows each stretch down as the caller's windows ask, and what a window that
-- ends in it holds of the turns before. A stretch that knows nothing of a unit
-- has turns of the windows that the unit had.
local function pace_stretches()
  if not slow[1] then return end
  local new = {}
  for unit, words in each_unit(asked_words()) do new[unit] = windows_of(words) end
  local all = match(ARGV[3], '%S+$')
  if all ~= '-' then new[''] = windows_of(all) end -- held turns need not obey the windows that imply these
  for _, change in ipairs(units_change) do
    for _, stretch in ipairs(slow) do
      if not string.find(stretch.under, format(';%s:', change.unit), 1, true) then
        stretch.under = joined(stretch.under, word_of(change.unit, change[1]))
      end
    end
  end
  local i = 1
  while slow[i] do -- there may be one more before it then, and it comes once more
    local pace, length = pace_of(slow[i].under, new)
    if pace > 1000000 then
      slow_down(i, pace)
      slow_before(i, slow_until(i - 1) - math.ceil(length * 1000000 / pace), pace)
    end
    i = i + 1
  end
  join_stretches()
  offset, must = moment_of(now) + late - rest - server, true
end
