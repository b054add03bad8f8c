-- Makes the units' key one of the caller's units, and counts again what was lost
-- of them.
--
-- Takes    what units.lua, recover.lua and others.lua leave; adopts: the caller's
--          windows count from now on
-- Leaves   logs, layout and epochs_of as the key is; units_change: the windows
--          that each unit had and has; must, if something is to be written
--
-- A unit that the caller does not have stays as it is. A unit that the key does
-- not have begins with nothing.

-- The header has become longer or shorter, or there are more blocks: they move.
local function move_blocks()
  local whole, texts = call('GETRANGE', units_key, '0', '-1'), {}
  local from = {}
  for _, block in ipairs(layout) do from[block.name] = block.size end
  lay_out()
  for i, block in ipairs(layout) do
    local text = from[block.name] and sub(whole, from[block.name] + 1, from[block.name] + BLOCK) or ''
    texts[i] = text .. string.rep(' ', BLOCK - #text)
  end
  local header = units_header()
  local problem = redis.pcall('PSETEX', units_key, format('%d', math.max(left, 1000)), header .. table.concat(texts))
  if problem.err then error(problem.err, 0) end
  must = true
end

-- How many permits of the log that is set stand at a slot or later.
local function counted_from(slot)
  local slots, totals = read_cells()
  return sequence - (totals[cell_from(slots, slot) - 1] or base)
end

-- How many of a unit are missing that the caller knows of, and at which slot they
-- stand at the latest. Where nobody knows how many, as many are missing there as
-- any window holds.
local function missing_of(l, begun, change)
  local most, longest = 0, 0
  for _, windows_then in ipairs(change) do
    for _, window in ipairs(windows_then) do
      most, longest = math.max(most, window.most), math.max(longest, window.length)
    end
  end
  local generation, epoch, upto = sub(knows_of_units, 1, 8), sub(knows_of_units, 10, 17), 0
  if l.knows == 0 or newest_known + longest <= now then return 0 end
  if generation ~= sub(name, 1, 8) and generation ~= renamed then
    return l.coarse > now and l.last >= newest_known and most - counted_from(newest_known) or most
  elseif begun and epoch == sub(name, 10, 17) then
    upto = l.sequence
  elseif begun and epoch == epochs_of[2] then
    upto = l.ended
    l.ended = math.max(l.ended, l.knows)
  end
  return math.min(most, l.knows - upto)
end

if count > 0 then
  if read_units() == nil then damaged() end
  local begun, whole = epochs_of ~= nil, true
  if begun and epochs_of[1] ~= sub(name, 10, 17) then
    epochs_of[2] = epochs_of[1]
    for i = 1, count do logs[i].ended = logs[i].sequence end
  end
  for i = 1, count do
    local l, block = logs[i], layout[logs[i].name]
    whole = whole and block ~= nil
    l.windows = windows_of(block and block.words or l.words)
    units_change[i] = { l.windows, windows_of(l.words) }
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
  if not begun then
    lay_out()
  elseif not whole and (relocates or must) then
    move_blocks()
  end
  for i = 1, remembers and count or 0 do
    local newest = math.max(newest_known, tail_of(0))
    go_to(i)
    local missing = missing_of(logs[i], begun, units_change[i])
    if missing > 0 then
      book(missing, newest)
      logs[i].dirty = true
    end
  end
  go_to(0)
  if healed then
    for i = 1, count do logs[i].tags = 0 end -- labels may have moved
    local newest = tail_of(1)
    if newest > last then book(0, newest) end
  end
end
