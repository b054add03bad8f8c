-- Reads and writes the ring as a whole.
--
-- Takes    the fields of the header, windows
-- Leaves   MOST_PERMITS, cell_of, read_cells, write_cells, cell_from, permits_in, cut_rows
--
-- Three tables stand for the cells from the oldest to the newest: of each its
-- slot, the sequence up to it, and whether it stands for nothing but its slot,
-- or a row up to it.

local MOST_PERMITS = 1000000000 -- of a window: see mostPermits in fair.go

-- A cell of the ring: slot and total in base 94, from '!' on, and a flag: '.' if
-- it is exact, else '~'.
local function cell_of(slot, total, exact)
  local bytes = {}
  total = total % 689869781056
  for i = 14, 9, -1 do
    bytes[i] = 33 + total % 94
    total = floor(total / 94)
  end
  for i = 8, 1, -1 do
    bytes[i] = 33 + slot % 94
    slot = floor(slot / 94)
  end
  return string.char(unpack(bytes)) .. (exact and '.' or '~')
end

read_cells = function()
  local slots, totals, exact = {}, {}, {}
  local ring = call('GETRANGE', key, size, size + CELLS * WIDTH - 1)
  for at = oldest, closed - 1 do
    local q, i = at % CELLS * WIDTH, #slots + 1
    local a, b, c, d, e, f, g, h, t, j, k, l, m, n, flag_of = byte(ring, q + 1, q + WIDTH)
    slots[i] = ((((((a * 94 + b) * 94 + c) * 94 + d) * 94 + e) * 94 + f) * 94 + g) * 94 + h - 2162986556113515
    totals[i] = ((((t * 94 + j) * 94 + k) * 94 + l) * 94 + m) * 94 + n - 244792502955
    totals[i], exact[i] = sequence - (sequence - totals[i]) % 689869781056, flag_of == 46
  end
  slots[#slots + 1], totals[#totals + 1], exact[#exact + 1] = last, sequence, last >= crowded
  return slots, totals, exact
end

-- Makes these the cells. If the ring has too little room, compact.lua makes some.
write_cells = function(slots, totals, exact)
  local cells, n = {}, #slots
  for i = 1, n - 1 do cells[i] = cell_of(slots[i], totals[i], exact[i]) end
  last, crowded = slots[n] or 0, n > 0 and not exact[n] and slots[n] + 1 or 0
  closed, oldest, marks, log = #cells, 0, '', table.concat(cells)
  for _, window in ipairs(windows) do marks = format('%s%16d %4d\n', marks, base + window.most, 0) end
  if closed <= CELLS then
    if closed > 0 then call('SETRANGE', key, size, log) end
    log = nil
  end
end

-- The first of the cells at a slot or later.
cell_from = function(slots, slot)
  local low, high = 1, #slots + 1
  while low < high do
    local middle = floor((low + high) / 2)
    if slots[middle] >= slot then high = middle else low = middle + 1 end
  end
  return low
end

-- How many permits of a cell stand within a length before its end, and what of
-- the length is too short for one more.
permits_in = function(length)
  local permits = 0
  for w = 6, windows_end, 3 do
    local times = floor(length / argv[w + 1])
    permits, length = permits + times * argv[w], length - times * argv[w + 1]
  end
  return permits, length
end

-- Cuts rows into pieces that are short enough to count whole, as each cell will
-- from now on. If there is room for a few only, what shares a 64th of the queue
-- is one cell, as in compact.lua. What has left is no row: it need not obey
-- these windows.
local function cut_rows()
  if coarse > now or last + counts_for() <= now then return end
  local slots, totals, exact = read_cells()
  local short_by = windows[#windows].most
  local ends_at, upto, rows, before, gone = {}, {}, 0, base, now - counts_for()
  for i = 1, #slots do
    exact[i] = exact[i] and totals[i] - before > short_by and slots[i] > gone
    if exact[i] then rows = rows + 1 end
    before = totals[i]
  end
  if rows == 0 then return end
  local first = math.max(gone, slots[1] - span_of(math.max(0, totals[1] - base - 1)))
  local most, part = floor((CELLS - 64 - #slots) / rows), nil
  if most < 32 then part = floor((last - first) / 64) + 1 end
  before = base
  for i = 1, #slots do
    local count, pieces, n = totals[i] - before, 1, #ends_at
    if exact[i] then pieces = part and math.min(64, math.ceil(span_of(count) / part)) or most end
    local long = math.max(1, math.ceil(count / pieces))
    for behind = math.max(0, floor((count - 1) / long) * long), 0, -long do
      local slot, before_it = math.max(slots[i - 1] or 0, slots[i] - span_of(behind)), ends_at[n]
      local joins = part and before_it and (before_it > now or slot <= now) and (before_it > gone or slot <= gone)
        and floor(math.max(0, before_it - first) / part) == floor(math.max(0, slot - first) / part)
      if not joins then n = n + 1 end
      ends_at[n], upto[n] = slot, totals[i] - behind
    end
    before = totals[i]
  end
  write_cells(ends_at, upto, {})
end
