-- Keeps a window log small, and takes rows apart.
--
-- Takes    what behind.lua leaves
-- Leaves   compact, compact_full, open_rows, forget_pace, adopt

-- Joins the cells that share one of the grid's.
local function merge(window)
  local slots, counts, kept, share = window.slots, window.counts, 0, nil
  for i = 1, #slots do
    local own = cell_at(window, slots[i])
    if own == share then
      slots[kept], counts[kept] = slots[i], counts[kept] + counts[i]
    else
      kept, share = kept + 1, own
      slots[kept], counts[kept] = slots[i], counts[i]
    end
  end
  for i = kept + 1, #slots do slots[i], counts[i] = nil, nil end
end

-- The running total before the cells of an open window.
local function base_of(queue, window)
  local total = queue.sequence
  for _, permits in ipairs(window.counts) do total = total - permits end
  return total
end

-- Joins buckets until there is room for some cells to come: for fewer where
-- that would leave too few buckets.
local function make_narrow(queue, window, cells, last, oldest, base)
  local histogram = window.behind
  while histogram and histogram.count > 1 do
    local spare = histogram.count > 2 * LEAST_BUCKETS and SPARE_CELLS or LEAST_SPARE
    local most = cells > 0 and math.min(MOST_CELLS, cells + spare) or 0
    if not is_over(queue, window, most, last, oldest, base) then return end
    coarsen(histogram)
  end
end

-- Makes room in an open window. Cells that no longer hold back the next turn
-- go to the histogram. Of the others those merge that share a cell of the grid,
-- only if there are more than a log keeps apart. The tail is FIFO's, or now.
local function compact(queue, window, tail)
  fold(queue, window, tail)
  local slots, is_crowded = window.slots, window.mode == 'c' and window.until_slot > tail
  if #slots > MOST_MOMENTS or is_crowded then
    merge(window)
    if not is_crowded then window.mode, window.until_slot, window.moments = 'c', tail + window.length, 0 end
  end
  make_narrow(queue, window, #slots, slots[#slots] or 0, slots[1] or 0, base_of(queue, window))
end

-- Makes room in a window that nothing merges in: its text stays as it is,
-- without the cells that go to the histogram. Returns whether that will do.
local function compact_text(queue, window, tail)
  local length, gone, more = window.length, 0, {}
  if window.mode == 'c' and window.until_slot > tail or window.last + length <= tail then return false end
  while gone < window.stored and slot_of(window, gone + 1) + length <= tail do gone = gone + 1 end
  if count_cells(window) + 1 - gone > MOST_MOMENTS then return false end
  if gone == window.stored and window.closed[1] and window.closed[1] + length <= tail then return false end
  local base = window.base
  trim(window, queue.now - length)
  for i = 1, gone do
    local total = total_of(window, i)
    spread(queue, window, more, slot_of(window, i), total - base)
    base, window.origin = total, slot_of(window, i)
  end
  spread_done(window, more)
  window.at = window.at + gone * (window.slot_digits + window.total_digits)
  window.base, window.stored = base, window.stored - gone
  local cells = count_cells(window)
  make_narrow(queue, window, cells + 1, window.last, cells > 0 and slot_of(window, 1) or window.last, base)
  return true
end

local function compact_open(queue, window, tail)
  local slots = window.slots
  local last, oldest = slots[#slots] or 0, slots[1] or 0
  if #slots > MOST_CELLS or is_over(queue, window, #slots, last, oldest, base_of(queue, window)) then
    compact(queue, window, tail)
  end
  close_log(queue, window)
end

-- Whether a window has more cells than it may, or takes more bytes: one that got
-- a cell, or whose cells outgrew their digits, as permits at the newest slot can
-- do. As long as its cells are wide enough, their text decides, and the line of
-- the histogram: the straight way looks at these as well.
local function is_full(queue, window)
  local is_wide = window.slot_digits > 0 and not window.unwritten and is_wide_enough(queue, window)
  if is_wide and not window.grew then return false end
  local closed = count_cells(window)
  if closed + 1 > MOST_CELLS and window.last > 0 then return true end
  if is_wide then
    return closed * (window.slot_digits + window.total_digits) + #behind_text(window.behind) > MOST_LINES
  end
  local cells, oldest = window.last > 0 and closed + 1 or 0, closed > 0 and slot_of(window, 1) or window.last
  return is_over(queue, window, cells, window.last, oldest, window.base)
end

-- Compacts the windows that are full.
function compact_full(queue, tail)
  for _, window in ipairs(queue) do
    if is_full(queue, window) and not compact_text(queue, window, tail) then
      open_log(queue, window)
      compact(queue, window, tail)
      close_log(queue, window)
    end
  end
end

-- Drops what has left the window of the oldest row of an open one.
local function drop_passed_of_row(queue, window)
  local spacing, slots, counts = queue.spacing, window.slots, window.counts
  if spacing == 0 or #slots == 0 then return end
  local first = slots[1] - (counts[1] - 1) * spacing
  if first < window.origin then return end -- no row; see open_rows
  local passed = math.floor((queue.now - window.length - first) / spacing) + 1
  if passed > 0 then
    counts[1], window.origin, window.behind = counts[1] - passed, first + (passed - 1) * spacing, nil
  end
end

-- Takes the rows of an open window apart, so that a permit can be taken out:
-- into single permits if the log has room for them. Else what is behind the
-- tail goes to the histogram, and the rest is cut at the borders of the grid. A
-- cell to which permits were pulled forward can reach back behind the one before
-- it: it is no row, and goes or stays as a whole.
local function open_rows(queue, window, tail)
  local spacing, slots, counts = queue.spacing, window.slots, window.counts
  drop_passed_of_row(queue, window)
  local permits = queue.sequence - base_of(queue, window)
  if spacing == 0 or permits == #slots then return end
  local opened, sizes, more, many, before = {}, {}, {}, permits > MOST_CELLS, window.origin
  if many then trim(window, queue.now - window.length) end
  for i = 1, #slots do
    local rest, first = counts[i], slots[i] - (counts[i] - 1) * spacing
    local behind = tail - window.length - first
    if first < before and many and slots[i] + window.length <= tail then
      spread(queue, window, more, slots[i], rest)
      window.origin, rest = slots[i], 0
    elseif first < before then
      opened[#opened + 1], sizes[#sizes + 1] = slots[i], rest
      rest = 0
    elseif many and behind >= 0 then
      local folded = math.min(rest, math.floor(behind / spacing) + 1)
      first, rest = first + folded * spacing, rest - folded
      spread(queue, window, more, first - spacing, folded)
      window.origin = first - spacing
    end
    while rest > 0 do
      local here = 1
      if many then here = math.min(rest, math.floor((bound_of(window, first) - 1 - first) / spacing) + 1) end
      first, rest = first + here * spacing, rest - here
      opened[#opened + 1], sizes[#sizes + 1] = first - spacing, here
    end
    before = slots[i]
  end
  spread_done(window, more)
  window.slots, window.counts = opened, sizes
end

-- What cells tell of a pace is no longer true: their permits stay where they
-- are known to stand now.
function forget_pace(queue, tail)
  for _, window in ipairs(queue) do
    drop_passed(queue, window)
    open_log(queue, window)
    open_rows(queue, window, tail)
    close_log(queue, window)
    window.grew = true
  end
  queue.interval, queue.burst, queue.spacing, queue.mixed = 0, 1, 0, 1
end

-- So many buckets of a shorter window become cells of a longer one at most,
-- before these merge (promise 6, the script's time).
local MOST_ADOPTED = 256

-- Makes a copy of a window one of its own length.
function adopt(queue, window, tail)
  local histogram = window.behind
  if not histogram then return end
  while histogram.count > MOST_ADOPTED do coarsen(histogram) end
  open_log(queue, window)
  unfold(window, tail)
  compact_open(queue, window, tail)
end
