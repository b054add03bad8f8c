local MOST_MOMENTS = 130
local SPARE_CELLS = 30
local MOST_CELLS = MOST_MOMENTS + SPARE_CELLS
local MOST_STATE = 3500
local MOST_BYTES = MOST_STATE - 500
local MOST_BUCKETS = 512
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
    window.bound = min(bound_of(window, window.last), window.until_slot)
  end
  if window.behind and window.behind.count == 0 then window.behind, window.origin = nil, 0 end
end
local function cell_digits(queue, window, last, oldest, base)
  return #format('%d', min(2 ^ 52, 2 * max(window.length, last - oldest))),
    #format('%d', 2 * max(500, queue.sequence - base))
end
local function is_over(queue, window, cells, last, oldest, base)
  local histogram, bytes = window.behind, 0
  if histogram then
    bytes = histogram.width > 0 and histogram.count * histogram.width or ceil(histogram.count / 4)
    if histogram.width > 0 and histogram.count > MOST_BUCKETS then return true end
  end
  local slot_digits, total_digits = cell_digits(queue, window, last, oldest, base)
  return bytes + cells * (slot_digits + total_digits) > MOST_BYTES
end
local function is_wide_enough(queue, window)
  local count, added = count_cells(window), #window.closed
  if count == 0 then return true end
  local span, held = window.last - slot_of(window, 1), queue.sequence - window.base
  if added > 0 then span = span + window.length end
  return span < 10 ^ window.slot_digits and held < 10 ^ window.total_digits
end
local function behind_text(histogram)
  if not histogram then return '' end
  return format('behind %d %d %d %d %d %d %d %d:', histogram.from, histogram.period, histogram.cells, histogram.laps,
    histogram.level, histogram.first, histogram.count, histogram.width) .. format('%s\n', histogram.text)
end
