-- Gives permits back. Nobody moves up: what lies ahead of turns still held
-- frees room in the windows, what lies at the tail makes the queue shorter.
--
-- KEYS, ARGV[1..5]  see head.lua
-- KEYS, the last ones  logs of flows: see ceiling.lua
-- ARGV[first..]  for each grant: generation, slot, permits, '<epoch> <sequence>'
--                with which it was granted, 1 if nobody has used it else 0,
--                which log of a flow it is in: 1 for the last one, 0 for none
--
-- Takes    what cells.lua leaves; at_least: the tail is not before
-- Leaves   the fields of the header; given, how many were given back; kept,
--          period, short, granted, changed, marked: see write.lua, compact.lua
-- Errors   STATE: the key holds something else. Nothing was changed.

as_arguments(unpack(argv, first))
local given = freed -- in the logs before this one: see units.lua
local period, short, least = argv[7], argv[windows_end - 1], argv[windows_end - 2]

local slots, totals, exact = {}, {}, {}
if not fresh then slots, totals, exact = read_cells() end

-- How many permits each cell has. A row is single permits as close to each other
-- as the windows allow.
local counts = {}
for i, total in ipairs(totals) do counts[i] = math.max(0, total - (totals[i - 1] or base)) end

local function insert(i, slot, count)
  table.insert(slots, i, slot)
  table.insert(counts, i, count)
  table.insert(exact, i, true)
end

-- Takes a row apart: what stands later than the slot, the group at it, what
-- stands earlier. A row reads as whole lengths back from its end: so what stands
-- earlier begins anew where one is whole. Returns the place of the group.
local function take_apart(i, slot)
  local finish, all = slots[i], counts[i]
  local later, rest_of = permits_in(finish - slot)
  if not exact[i] or rest_of > 0 or later >= all or coarse > now then return i end
  if later > 0 then
    counts[i] = later
    insert(i, slot, 0)
  end
  local at = math.min(later + least, all)
  counts[i] = at - later
  local group = i
  for w = #windows, 0, -1 do
    local most = w > 0 and windows[w].most or all
    local upto = math.min(math.ceil(at / most) * most, all)
    if upto > at then
      insert(i, finish - span_of(at), upto - at)
      group, at = group + 1, upto
    end
  end
  return group
end

-- Whether permits with a slot that has passed may have been forgotten: they are not
-- known to stand in the oldest cell.
local function was_forgotten(i, slot)
  if i > 1 or not slots[1] or is_ahead(slot) then return false end
  local is_row = exact[1] and coarse <= now
  return slot < slots[1] - (is_row and span_of(math.max(0, counts[1] - 1)) or 0)
end

-- Permits are known to stand at their slot or later.
local function give_back(slot, permits)
  if permits == 0 then return end -- a turn of other units
  local i = cell_from(slots, slot)
  if was_forgotten(i, slot) then return end
  if slots[i] then i = take_apart(i, slot) end
  -- Where a row was cut, some of them may stand in the next cell: no more than
  -- those.
  local upto, there = i, counts[i] or 0
  while there < permits and counts[upto + 1] do
    upto = upto + 1
    there = there + counts[upto]
  end
  if there < permits then return end
  for j = i, upto do
    local here = math.min(counts[j] or 0, permits) -- a turn may have no permits
    counts[j], permits = counts[j] - here, permits - here
  end
  given = given + 1
end

-- Totals of what stands before a return grow.
local function write_left()
  local n, total = 0, sequence
  for _, count in ipairs(counts) do total = total - count end
  base = total
  for i, count in ipairs(counts) do
    if count > 0 then
      n, total = n + 1, total + count
      slots[n], totals[n], exact[n] = slots[i], total, exact[i]
    end
  end
  if at_least > (slots[n] or 0) then -- the tail of another log
    n = n + 1
    slots[n], totals[n], exact[n] = at_least, total, true
  end
  for i = n + 1, #slots do slots[i] = nil end
  write_cells(slots, totals, exact)
end

-- Takes permits out of the log of a flow, unless it began later. Totals before a
-- return grow here too.
local function give_back_in(place_of_log, slot, permits)
  local of, began = match(call('ZRANGEBYSCORE', place_of_log, '-1', '-1')[1] or '', '^generation (%w+) (%d+)')
  if of ~= sub(name, 1, 8) or slot < began + 0 then return end
  local cells, at = call('ZRANGEBYSCORE', place_of_log, '0', '+inf', 'WITHSCORES'), 1
  while cells[at] and cells[at] + 0 < slot do at = at + 2 end
  if not cells[at] then return end
  local total, before = cells[at + 1] + 0, (cells[at - 1] or 0) + 0
  permits = math.min(permits, total - before)
  if permits == total - before then call('ZREM', place_of_log, cells[at]) end
  if cells[1] ~= '0' then call('ZADD', place_of_log, format('%d', permits), '0') end -- the others begin there
  for i = 1, at - 1, 2 do call('ZADD', place_of_log, format('%d', cells[i + 1] + permits), cells[i]) end
end

for i = first, #argv, 6 do
  local slot, permits = argv[i + 1] + 0, argv[i + 2] + 0
  local place_in = argv[i] == sub(name, 1, 8) and place_of(argv[i + 3], slot)
  if place_in and (is_ahead(slot) or argv[i + 4] == '1') then
    if is_ahead(slot) or place_in + kept > now then give_back(place_in, permits) end -- else it has no cell any more
    if argv[i + 5] ~= '0' then give_back_in(KEYS[#KEYS + 1 - argv[i + 5]], slot, permits) end
  end
end
if given > 0 then
  write_left()
  must, freed = true, given
end
