-- Lets a log go by other windows than it did.
--
-- Takes    what cells.lua leaves
-- Leaves   go_by
--
-- All windows read the same log. What another caller was granted need not obey
-- these windows: so until all of that has left, each cell counts whole. Permits
-- count for as long as the longest window that somebody has asked under in the
-- last two lengths. Of what had been forgotten before, it is not known when it
-- was granted: a longer window counts it at the oldest slot that is kept, unless
-- that is ahead. After a loss any window does, at the newest slot that was lost: it
-- may hold more than those of whoever counted that again.

-- Cuts rows into pieces that are short enough to count whole. If there is room for a
-- few only, what shares a 64th of the queue is one cell, as in compact.lua.
local function cut_rows(short_by)
  local slots, totals, exact = read_cells()
  local ends_at, upto, rows, before, first = {}, {}, 0, base, slots[1]
  for i = 1, #slots do
    local count = totals[i] - before
    if exact[i] and count > short_by then rows, first = rows + 1, math.min(first, slots[i] - span_of(count)) end
    before = totals[i]
  end
  if rows == 0 then return end
  local most, part = floor((CELLS - 64 - #slots) / rows), nil
  if most < 32 then part = floor((last - first) / 64) + 1 end
  before = base
  for i = 1, #slots do
    local count, pieces, n = totals[i] - before, 1, #ends_at
    if exact[i] and count > short_by then pieces = part and math.min(64, math.ceil(span_of(count) / part)) or most end
    local long = math.ceil(count / math.max(1, pieces))
    for behind = count > 0 and floor((count - 1) / long) * long or 0, 0, -math.max(1, long) do
      local slot, before_it = slots[i] - span_of(behind), ends_at[n]
      local joins = part and before_it and (before_it > now or slot <= now)
        and floor((before_it - first) / part) == floor((slot - first) / part)
      if not joins then n = n + 1 end
      ends_at[n], upto[n] = slot, totals[i] - behind
    end
    before = totals[i]
  end
  write_cells(ends_at, upto, {})
end

local MOST_PERMITS = 1000000000 -- of a window: see mostPermits in fair.go

local function go_by(others)
  local longest = counts_for()
  if coarse <= now and last + longest > now and (relocates or must) then cut_rows(windows[#windows].most) end
  windows, marks = others, ''
  local forgotten, known = base, longest
  if full + longest > now then
    known, oldest = 0, oldest + math.min(cell_from(read_cells(), full) - 1, closed - oldest)
  end
  -- It stands at the oldest slot from now on, as many as any window holds, whoever asks next.
  if windows[1].length > known and (known == 0 or not is_ahead(read_cells()[1])) then
    base = math.min(base, math.max(0, sequence - MOST_PERMITS))
  end
  for _, window in ipairs(windows) do
    marks = format('%s%16d %4d\n', marks, (window.length > known and base or forgotten) + window.most, oldest)
  end
  longest = math.max(longest, windows[1].length)
  if last + longest > now then
    span, coarse = longest, math.max(coarse, math.max(now, last) + 2 * longest)
  end
end
