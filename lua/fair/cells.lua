-- Reads the ring.
--
-- Takes    the fields of the header
-- Leaves   read_cells; and, once that was called, slots, totals, exact: of each
--          cell from the oldest to the newest its slot, the sequence up to it,
--          and whether it stands for nothing but its slot, or a row up to it

local slots, totals, exact = {}, {}, {}

local function read_cells()
  local ring = call('GETRANGE', key, size, size + CELLS * WIDTH - 1)
  for at = oldest, closed - 1 do
    local q, i = at % CELLS * WIDTH, #slots + 1
    local a, b, c, d, e, f, g, h, t, j, k, l, m, n, flag_of = byte(ring, q + 1, q + WIDTH)
    slots[i] = ((((((a * 94 + b) * 94 + c) * 94 + d) * 94 + e) * 94 + f) * 94 + g) * 94 + h - 2162986556113515
    totals[i] = ((((t * 94 + j) * 94 + k) * 94 + l) * 94 + m) * 94 + n - 244792502955
    totals[i], exact[i] = sequence - (sequence - totals[i]) % 689869781056, flag_of == 46
  end
  slots[#slots + 1], totals[#totals + 1], exact[#exact + 1] = last, sequence, last >= crowded
end
