-- Counts again what was lost, in the log that is set.
--
-- Takes    what cells.lua leaves
-- Leaves   book, most_of_all, fill; healed and must, once they have counted something;
--          remembers and unknown, for recover.lua

local remembers, unknown = false, false

-- Counts permits at the slot, or at the newest if others were granted later
-- ones. Until they have left, each cell counts whole: they may be of callers
-- with other windows.
local function book(permits, slot)
  cut_rows()
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
  if last + counts_for() <= now then
    base = sequence
    write_cells({}, {}, {})
  end
  last, sequence, coarse = slot, sequence + permits, math.max(coarse, slot + counts_for())
  healed, must = true, true
end

-- How many permits any window holds, of the queue, the caller, and the caller of
-- then.
local function most_of_all(under)
  local most = 1
  for _, window in ipairs(windows) do most = math.max(most, window.most) end
  for _, window in ipairs(windows_of(match(under, '^:[%d/,]+') or '')) do most = math.max(most, window.most) end
  for w = 6, windows_end, 3 do most = math.max(most, argv[w] + 0) end
  return most
end

-- Counts as many permits as any window holds, as nobody knows how many were lost.
-- Up to there all counts as full: others may have wider windows.
local function fill(under, slot)
  book(most_of_all(under), slot)
  full = last
end
