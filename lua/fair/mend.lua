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

-- How many of a unit are missing. An epoch that is not known any more may have
-- granted as many as any window holds.
local function missing_of(l, begun)
  local most = 0
  for _, window in ipairs(l.windows) do most = math.max(most, window.most) end
  local known, epoch = sub(watermark, 1, 8) == sub(name, 1, 8), sub(watermark, 10, 17)
  local newest = match(ARGV[3], '^%w+ %d+ %d+ %d+ (%d+)') + 0
  local upto = 0
  if known and begun and epoch == sub(name, 10, 17) then
    upto = l.sequence
  elseif known and begun and epoch == epochs_of[2] then
    upto = l.ended
    l.ended = math.max(l.ended, l.knows)
  elseif not known and not healed and l.sequence > 0 then
    return 0, 0 -- it is counted already
  end
  local slot = known and newest or healed and logs[0].last or full
  if slot + l.windows[1].length <= now then return 0, 0 end
  return math.min(most, l.knows - upto), slot
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
  for i = 1, count do
    local missing, slot = 0, 0
    if remembers and logs[i].knows > 0 then missing, slot = missing_of(logs[i], begun) end
    if missing > 0 then
      slot = math.max(slot, tail_of(0))
      go_to(i)
      book(missing, slot)
      logs[i].dirty = true
      go_to(0)
    end
  end
  if healed then
    for i = 1, count do logs[i].tags = 0 end -- labels may have moved
    local newest = tail_of(1)
    if newest > last then book(0, newest) end
  end
end
