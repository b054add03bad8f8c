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

local function go_by(others)
  local longest = counts_for()
  if relocates or must then cut_rows() end
  windows, marks = others, ''
  local forgotten, known = base, longest
  if full + longest > now then
    known, oldest = 0, oldest + math.min(cell_from(read_cells(), full) - 1, closed - oldest)
  end
  -- It stands at the oldest slot from now on, as many as any window holds,
  -- whoever asks next.
  if windows[1].length > known and (known == 0 or not is_ahead(read_cells()[1])) then
    base = math.min(base, math.max(0, sequence - MOST_PERMITS))
  end
  for _, window in ipairs(windows) do
    local room = (window.length > known and base or forgotten) + window.most
    if known == 0 then room = math.min(room, sequence) end -- few may be left of what any window holds
    marks = format('%s%16d %4d\n', marks, room, oldest)
  end
  longest = math.max(longest, windows[1].length)
  if last + longest > now then
    span, coarse = longest, math.max(coarse, math.max(now, last) + 2 * longest)
  end
end
