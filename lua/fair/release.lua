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

as_arguments(unpack(argv, first))
local given = 0
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

-- Permits are known to stand at their slot or later.
local function give_back(slot, permits)
  local i = cell_from(slots, slot)
  if slots[i] then i = take_apart(i, slot) end
  -- Where a row was cut, some of them may stand in the next cell: no more than those.
  local upto, there = i, counts[i] or 0
  while there < permits and counts[upto + 1] do
    upto = upto + 1
    there = there + counts[upto]
  end
  if there < permits then return end
  for j = i, upto do
    local here = math.min(counts[j], permits)
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
  for i = n + 1, #slots do slots[i] = nil end
  write_cells(slots, totals, exact)
end

for i = first, #argv, 5 do
  local slot = argv[i + 1] + 0
  local place_in = argv[i] == sub(name, 1, 8) and place_of(argv[i + 3], slot)
  local counts_still = argv[i + 4] == '1' and place_in and place_in + kept > now -- else it has no cell any more
  if place_in and (is_ahead(slot) or counts_still) then give_back(place_in, argv[i + 2] + 0) end
end
if given > 0 then
  write_left()
  must = true
  if math.max(slow_until, then_until) > last then slow_up_to(last) end -- what comes behind may be of other quotas
end
