-- Counts again what was lost, in the log that is set.
--
-- Takes    what cells.lua leaves
-- Leaves   book, put_off; healed and must, once they have counted something

-- Counts permits at the slot, or at the newest if others were granted later
-- ones. Until they have left, each cell counts whole: they may be of callers
-- with other windows.
local function book(permits, slot)
  slot = math.max(slot, last)
  if slot > last and last + counts_for() > now then
    if closed - oldest < CELLS then
      local problem = redis.pcall('SETRANGE', key, size + closed % CELLS * WIDTH,
        cell_of(last, sequence, last >= crowded))
      if type(problem) == 'table' then error(problem.err, 0) end
      closed = closed + 1
    else
      crowded = slot + 1
    end
  end
  if last + counts_for() <= now then closed, oldest, base, crowded = 0, 0, sequence, 0 end
  last, sequence, coarse = slot, sequence + permits, math.max(coarse, slot + counts_for())
  healed, must = true, true
end

-- Counts all that stands between two slots at the later one.
local function put_off(from, to)
  local slots, totals, exact = read_cells()
  local n = 0
  for i = 1, #slots do
    local slot, total, alone = slots[i], totals[i], exact[i]
    if n > 0 and slots[n] == to and slot <= to then n = n - 1 end
    n = n + 1
    local between = slot >= from and slot <= to
    slots[n], totals[n], exact[n] = between and to or slot, total, alone and not between
  end
  for i = n + 1, #slots do slots[i] = nil end
  write_cells(slots, totals, exact)
  coarse, must = math.max(coarse, to + counts_for()), true
end
