-- Reads and writes the ring as a whole.
--
-- Takes    the fields of the header, windows
-- Leaves   cell_of, read_cells, write_cells, cell_from, permits_in
--
-- Three tables stand for the cells from the oldest to the newest: of each its
-- slot, the sequence up to it, and whether it stands for nothing but its slot,
-- or a row up to it.

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
