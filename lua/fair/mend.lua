-- Counts again what was lost of the units, and lets them go by the caller's
-- windows.
--
-- Takes    what units.lua, narrow.lua, recover.lua and others.lua leave; adopts:
--          the caller's windows count from now on
-- Leaves   logs and epochs_of; units_change: the windows that each unit had and
--          has; begun: the key is of this queue; whole: it has the caller's units
--          under the caller's windows; must, if something is to be written
--
-- A unit that the caller does not have stays as it is. A unit that the key does
-- not have begins with nothing, unless the key alone was lost: then its sequences
-- go on, so that others can tell what of theirs has been counted.

local begun, whole = false, true

-- How many permits of the log that is set stand at a slot or later.
local function counted_from(slot)
  local slots, totals = read_cells()
  return sequence - (totals[cell_from(slots, slot) - 1] or base)
end

-- How many of a unit are missing that the caller knows of. Where nobody knows
-- how many, as many are missing there as any window holds.
local function missing_of(l, change)
  local most, longest = 0, 0
  for _, windows_then in ipairs(change) do
    for _, window in ipairs(windows_then) do
      most, longest = math.max(most, window.most), math.max(longest, window.length)
    end
  end
  if l.knows == 0 or l.newest + longest <= now then return 0 end
  local generation, epoch = sub(knows_of_units, 1, 8), sub(knows_of_units, 10, 17)
  if generation ~= sub(name, 1, 8) then
    return l.coarse > now and l.last >= l.newest and most - counted_from(l.newest) or most
  elseif begun and epoch == sub(name, 10, 17) then
    return l.knows - l.sequence
  elseif begun and epoch == epochs_of[2] then
    local ended = l.ended
    l.ended = math.max(ended, l.knows)
    return l.knows - ended
  end
  local ended, known = end_of(epoch)
  if begun and ended and ended == known then return 0 end -- nothing of that epoch was lost
  return unknown and most or math.min(most, l.knows)
end

-- The windows of a unit that was lost, as the caller knew it.
local function words_then(l)
  for unit, words in each_unit(match(ARGV[3], '(%S+) %S+$')) do
    if unit == l.name then return words end
  end
  return l.words
end

if count > 0 then
  if read_units() == nil then damaged() end
  begun = epochs_of ~= nil
  if begun and epochs_of[1] ~= sub(name, 10, 17) then
    epochs_of[2] = epochs_of[1]
    for i = 1, count do logs[i].ended = logs[i].sequence end
  end
  for i = 1, count do
    local l, block = logs[i], layout[logs[i].name]
    whole = whole and block ~= nil
    l.windows = windows_of(block and block.words or l.words)
    units_change[i] = { unit = l.name, block and l.windows or windows_of(words_then(l)), windows_of(l.words) }
  end
  for i = 1, remembers and count or 0 do
    local l, tail = logs[i], tail_of(0)
    l.newest = l.newest + moves
    go_to(i)
    local missing = missing_of(l, units_change[i])
    if not begun and knows_of_units == sub(name, 1, 17) then sequence = math.max(0, l.knows - missing) end
    if missing > 0 then
      book(missing, math.max(l.newest, tail))
      l.dirty = true
    end
    if not begun then l.ended = l.knows end
  end
  if remembers and not begun and knows_of_units ~= '' then epochs_of = { '', sub(knows_of_units, 10, 17) } end
  for i = 1, count do
    local l, block = logs[i], layout[logs[i].name]
    if block and block.words ~= l.words then
      go_to(i)
      if adopts then
        go_by(units_change[i][2])
        whole, l.dirty, block.words = false, true, l.words
      else
        as_arguments()
      end
    end
  end
  go_to(0)
  if healed then
    for i = 1, count do logs[i].tags = 0 end -- labels may have moved
    local newest = tail_of(1)
    if newest > last then book(0, newest) end
  end
end
if not adopts then as_arguments() end
