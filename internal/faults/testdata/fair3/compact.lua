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
local function base_of(queue, window)
  local total = queue.sequence
  for _, permits in ipairs(window.counts) do total = total - permits end
  return total
end
local function make_narrow(queue, window, cells, last, oldest, base)
  cells = cells > 0 and min(MOST_CELLS, cells + SPARE_CELLS) or 0
  while window.behind and window.behind.count > 1 and is_over(queue, window, cells, last, oldest, base) do
    coarsen(window.behind)
  end
end
local function compact(queue, window, tail)
  fold(queue, window, tail)
  local slots, is_crowded = window.slots, window.mode == 'c' and window.until_slot > tail
  if #slots > MOST_MOMENTS or is_crowded then
    merge(window)
    if not is_crowded then window.mode, window.until_slot, window.moments = 'c', tail + window.length, 0 end
  end
  make_narrow(queue, window, #slots, slots[#slots] or 0, slots[1] or 0, base_of(queue, window))
end
local function compact_text(queue, window, tail)
  local length, gone, more = window.length, 0, {}
  if window.mode == 'c' and window.until_slot > tail or window.last + length <= tail then return false end
  while gone < window.stored and slot_of(window, gone + 1) + length <= tail do gone = gone + 1 end
  if count_cells(window) + 1 - gone > MOST_MOMENTS then return false end
  if gone == window.stored and window.closed[1] and window.closed[1] + length <= tail then return false end
  local base = window.base
  for i = 1, gone do
    local total = total_of(window, i)
    spread(queue, window, more, slot_of(window, i), total - base)
    base, window.origin = total, slot_of(window, i)
  end
  if gone > 0 then flush(window.behind, more) end
  window.at = window.at + gone * (window.slot_digits + window.total_digits)
  window.base, window.stored = base, window.stored - gone
  trim(window, queue.now - length)
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
local function is_full(queue, window)
  if not window.grew then return false end
  local closed = count_cells(window)
  if closed + 1 > MOST_CELLS and window.last > 0 then return true end
  if window.slot_digits > 0 and not window.unwritten and is_wide_enough(queue, window) then
    return closed * (window.slot_digits + window.total_digits) + #behind_text(window.behind) > MOST_LINES
  end
  local cells, oldest = window.last > 0 and closed + 1 or 0, closed > 0 and slot_of(window, 1) or window.last
  return is_over(queue, window, cells, window.last, oldest, window.base)
end
function compact_full(queue, tail)
  for _, window in ipairs(queue) do
    if is_full(queue, window) and not compact_text(queue, window, tail) then
      open_log(queue, window)
      compact(queue, window, tail)
      close_log(queue, window)
    end
  end
end
local function drop_passed_of_row(queue, window)
  local spacing, slots, counts = queue.spacing, window.slots, window.counts
  if spacing == 0 or #slots == 0 then return end
  local first = slots[1] - (counts[1] - 1) * spacing
  local passed = floor((queue.now - window.length - first) / spacing) + 1
  if passed > 0 then
    counts[1], window.origin, window.behind = counts[1] - passed, first + (passed - 1) * spacing, nil
  end
end
local function open_rows(queue, window, tail)
  local spacing, slots, counts = queue.spacing, window.slots, window.counts
  drop_passed_of_row(queue, window)
  local permits = queue.sequence - base_of(queue, window)
  if spacing == 0 or permits == #slots then return end
  local opened, sizes, more, many = {}, {}, {}, permits > MOST_CELLS
  for i = 1, #slots do
    local rest, first = counts[i], slots[i] - (counts[i] - 1) * spacing
    local behind = tail - window.length - first
    if many and behind >= 0 then
      local folded = min(rest, floor(behind / spacing) + 1)
      first, rest = first + folded * spacing, rest - folded
      spread(queue, window, more, first - spacing, folded)
      window.origin = first - spacing
    end
    while rest > 0 do
      local here = 1
      if many then here = min(rest, floor((bound_of(window, first) - 1 - first) / spacing) + 1) end
      first, rest = first + here * spacing, rest - here
      opened[#opened + 1], sizes[#sizes + 1] = first - spacing, here
    end
  end
  if window.behind then
    flush(window.behind, more)
    if window.behind.count == 0 then window.behind = nil end
  end
  window.slots, window.counts = opened, sizes
end
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
local MOST_ADOPTED = 256
function adopt(queue, window, tail)
  local histogram = window.behind
  if not histogram then return end
  while histogram.count > MOST_ADOPTED do coarsen(histogram) end
  open_log(queue, window)
  unfold(window, tail)
  compact_open(queue, window, tail)
end
