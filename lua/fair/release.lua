-- Gives permits back. Nobody moves up: what lies ahead of turns still held
-- frees room in the windows, what lies at the tail makes the queue shorter.
--
-- KEYS, ARGV[1..5]  see head.lua
-- ARGV[first..]  for each grant: generation, slot, permits, '<epoch> <sequence>'
--                with which it was granted, 1 if nobody has used it else 0
--
-- Takes    what cells.lua leaves
-- Leaves   the fields of the header; given, how many were given back; kept,
--          period, short, granted, changed, marked: see write.lua, compact.lua
-- Errors   STATE: the key holds something else. Nothing was changed.

local kept, granted, changed, marked, given = counts_for(), 0, true, true, 0
local period, short, least = windows[1].length, windows[#windows].length, windows[#windows].most

-- How many permits each cell has. A row is single permits as close to each other
-- as the windows allow.
local counts = {}
for i, total in ipairs(totals) do counts[i] = math.max(0, total - (totals[i - 1] or base)) end

-- How many permits of a cell stand within the span of its end, by its windows;
-- and back.
local function permits_in(length)
  local permits = 0
  for _, window in ipairs(windows) do
    local times = floor(length / window.length)
    permits, length = permits + times * window.most, length - times * window.length
  end
  return permits, length
end

local function span_of(permits)
  local length = 0
  for _, window in ipairs(windows) do
    local times = floor(permits / window.most)
    length, permits = length + times * window.length, permits - times * window.most
  end
  return length
end

-- The first cell at or after the slot.
local function cell_after(slot)
  local low, high = 1, #slots + 1
  while low < high do
    local middle = floor((low + high) / 2)
    if slots[middle] >= slot then high = middle else low = middle + 1 end
  end
  return low
end

-- Takes a row apart: what stands later than the slot, the group at it, what
-- stands earlier. Returns the place of the group.
local function take_apart(i, slot)
  local later, rest_of = permits_in(slots[i] - slot)
  if not exact[i] or rest_of > 0 or later >= counts[i] or coarse > now then return i end
  local earlier = counts[i] - later - least
  if later > 0 then
    table.insert(slots, i + 1, slots[i])
    table.insert(counts, i + 1, later)
    table.insert(exact, i + 1, true)
    slots[i], counts[i] = slot, counts[i] - later
  end
  if earlier <= 0 then return i end
  table.insert(slots, i, slots[i] - span_of(least))
  table.insert(counts, i, earlier)
  table.insert(exact, i, true)
  counts[i + 1] = least
  return i + 1
end

-- Permits are known to stand at their slot or later.
local function give_back(slot, permits)
  local i = cell_after(slot)
  if slots[i] then i = take_apart(i, slot) end
  while counts[i] and counts[i] < permits do i = i + 1 end
  if counts[i] then counts[i], given = counts[i] - permits, given + 1 end
end

-- Writes what is left, newest first. Totals of what stands before a return grow.
-- What the ring has no place for is counted by the oldest cell that it has.
local function write_cells()
  local total, cells, n = sequence, {}, 0
  for i = #slots, 1, -1 do
    if counts[i] > 0 then
      n = n + 1
      if n == 1 then
        last, crowded = slots[i], exact[i] and 0 or slots[i] + 1
      elseif n <= CELLS then
        local whole = exact[i] and (n < CELLS or i == 1)
        cells[CELLS - n + 2] = cell_of(slots[i], total, whole and '.' or '~')
      end
      total = total - counts[i]
    end
  end
  if n == 0 then last = 0 end
  closed, oldest, base, marks = math.min(math.max(0, n - 1), CELLS - 1), 0, total, ''
  for _, window in ipairs(windows) do marks = format('%s%16d %4d\n', marks, total + window.most, 0) end
  if closed > 0 then
    call('SETRANGE', key, size, table.concat(cells, '', CELLS - closed + 1, CELLS))
  end
end

for i = first, #argv, 5 do
  local slot = argv[i + 1] + 0
  local place_in = argv[i] == sub(name, 1, 8) and place_of(argv[i + 3], slot)
  if place_in and (is_ahead(slot) or argv[i + 4] == '1') then give_back(place_in, argv[i + 2] + 0) end
end
if given > 0 then
  write_cells()
  must = true
end
as_arguments() -- for compact.lua
