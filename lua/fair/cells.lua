-- What a window may hold, and its cells as numbers.
--
-- Takes    what histogram.lua leaves
-- Leaves   MOST_CELLS, MOST_MOMENTS, SPARE_CELLS, LEAST_SPARE, LEAST_BUCKETS,
--          MOST_STATE, MOST_BYTES, MOST_BUCKETS, MOST_BITS, open_log, close_log,
--          cell_digits, is_over, is_wide_enough, behind_text
--
-- An open window has its cells, the newest among them, as numbers, oldest
-- first: in slots, and in counts how many permits each has.

-- "A slot is later than the earliest only after more than 130 distinct moments
-- within one window" (promise 3): so many cells that can hold a turn back stay
-- apart.
local MOST_MOMENTS = 130

-- With a spare of 30 a saturated window compacts once in 30 new slots and not
-- at each (promise 6, the script's time).
local SPARE_CELLS = 30
local MOST_CELLS = MOST_MOMENTS + SPARE_CELLS

-- The spare where bytes are short, because cells are wide: they stand for many
-- permits in a long window. Room for 30 of them would leave the histogram few
-- buckets, and promise 7 needs 100: "at most 1 % of the backlog".
local LEAST_SPARE = 5
local LEAST_BUCKETS = 100

-- Promise 6: "at most 3.5 KB a window". Cells of 24 or 25 digits take more, as
-- so many moments stay apart: of over 500 million permits in over 58 days, or 50
-- million in 580.
local MOST_STATE = 3500

-- What the cells and the histogram of a window take of it at most. The rest of
-- its state takes 580 bytes: the first line 160, with a pause and with quotas
-- that became narrower; the window's own numbers 122, those of its histogram 64;
-- the epochs 157, the position 77.
local MOST_BYTES = MOST_STATE - 580

-- Promise 6 again, for the time that it takes to read all of a histogram.
-- After it was coarsened a bucket is 1/256 of the backlog.
local MOST_BUCKETS = 512

-- As many buckets of one permit as the bytes hold: four in one.
local MOST_BITS = 4 * MOST_BYTES

local function open_log(queue, window)
  local slots, counts, before, total = {}, {}, 0, window.base
  for i = 1, count_cells(window) + (window.last > 0 and 1 or 0) do
    local slot, upto = window.last, queue.sequence
    if i <= count_cells(window) then slot, upto = slot_of(window, i), total_of(window, i) end
    if upto <= total or slot < before then damaged() end
    slots[i], counts[i] = slot, upto - total
    before, total = slot, upto
  end
  window.slots, window.counts = slots, counts
end

local function close_log(queue, window)
  local slots, counts, closed, total = window.slots, window.counts, {}, queue.sequence
  local newest = #slots
  window.last = slots[newest] or 0
  for i = newest, 1, -1 do
    if i < newest then closed[2 * i - 1], closed[2 * i] = slots[i], total end
    total = total - counts[i]
  end
  window.base, window.stored, window.closed, window.unwritten, window.slots = total, 0, closed, true, nil
  window.room, window.bound = 0, 0
  if newest == 0 then
    window.mode = '.'
  elseif window.mode == 'c' then
    window.bound = math.min(bound_of(window, window.last), window.until_slot)
  end
  if window.behind and window.behind.count == 0 then window.behind, window.origin = nil, 0 end
end

-- How many digits cells take, wide enough for some time to come.
local function cell_digits(queue, window, last, oldest, base)
  return #format('%d', math.min(2 ^ 52, 2 * math.max(window.length, last - oldest))),
    #format('%d', 2 * math.max(500, queue.sequence - base))
end

-- Whether the window takes too much with so many cells.
local function is_over(queue, window, cells, last, oldest, base)
  local histogram, bytes = window.behind, 0
  if histogram then
    bytes = histogram.width > 0 and histogram.count * histogram.width or math.ceil(histogram.count / 4)
    if histogram.width > 0 and histogram.count > MOST_BUCKETS then return true end
  end
  local slot_digits, total_digits = cell_digits(queue, window, last, oldest, base)
  return bytes + cells * (slot_digits + total_digits) > MOST_BYTES
end

-- Whether the cells have digits enough; with a cell just closed, for some
-- time to come as well.
local function is_wide_enough(queue, window)
  local count, added = count_cells(window), #window.closed
  if count == 0 then return true end
  local span, held = window.last - slot_of(window, 1), queue.sequence - window.base
  if added > 0 then span = span + window.length end
  return span < 10 ^ window.slot_digits and held < 10 ^ window.total_digits
end

-- The line of a histogram.
local function behind_text(histogram)
  if not histogram then return '' end
  return format('behind %d %d %d %d %d %d %d %d:', histogram.from, histogram.period, histogram.cells, histogram.laps,
    histogram.level, histogram.first, histogram.count, histogram.width) .. format('%s\n', histogram.text)
end
