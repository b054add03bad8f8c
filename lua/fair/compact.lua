-- Keeps a window log small: merges neighbouring cells of it once it has too
-- many. This is where promises are bounded, so each constant names its own.
--
-- Takes    what log.lua and windows.lua leave
-- Leaves   compact, open_spans, cut, share_of, bound_of, forget_pace
--
-- Spans are the cells of a window as numbers, oldest first: up to which slot
-- (last), how many permits, and, where the spacing tells, from which slot on
-- they stand one spacing apart (first, else false).

-- "A slot is later than the earliest only after more than 130 distinct
-- moments within one window": so many cells that can still hold a turn back
-- stay apart.
local MOST_ACTIVE = 130

-- With those further back, which matter when the queue is cancelled back to
-- them. It bounds the state: 131 cells of 26 digits are 3.4 KB.
local MOST_CELLS = 131

-- The grid's cell that a slot lies in, counted from the queue's first moment.
local function share_of(window, slot)
  local period, cells, laps = window.period, window.cells, window.laps
  local phase = slot % period
  return (slot - phase) / period * cells + floor(floor(phase * laps / period) * cells / laps)
end

-- Where that cell ends.
local function bound_of(window, slot)
  local period, cells, laps = window.period, window.cells, window.laps
  local phase = slot % period
  local cell = floor(floor(phase * laps / period) * cells / laps)
  return slot - phase + ceil(ceil((cell + 1) * laps / cells) * period / laps)
end

local function open_spans(queue, window)
  local spans, before, total, spacing = {}, window.origin, window.base, queue.spacing
  local function add(last, upto)
    local permits = upto - total
    if permits <= 0 or last < before then damaged() end
    local filled = spacing > 0 and (permits == 1 or last - before == permits * spacing)
    spans[#spans + 1] = { last = last, permits = permits, first = filled and last - (permits - 1) * spacing }
    before, total = last, upto
  end
  for i = 1, count_cells(window) do
    add(slot_of(window, i), total_of(window, i))
  end
  if window.last > 0 then add(window.last, queue.sequence) end
  return spans
end

local function close_spans(queue, window, spans)
  local total, newest, closed = queue.sequence, table.remove(spans), {}
  if newest then total = total - newest.permits end
  for i = #spans, 1, -1 do
    closed[2 * i - 1], closed[2 * i] = spans[i].last, total
    total = total - spans[i].permits
  end
  window.base, window.stored, window.closed, window.unwritten = total, 0, closed, true
  window.last, window.bound = newest and newest.last or 0, 0
end

-- A span that begins after a gap needs its first slot as a cell, or the gap
-- would be lost.
local function mark_gaps(queue, spans, before)
  local out, spacing = {}, queue.spacing
  for _, span in ipairs(spans) do
    local first = span.first
    if first and span.permits > 1 and before ~= first - spacing then
      out[#out + 1] = { first = first, last = first, permits = 1 }
      span = { first = first + spacing, last = span.last, permits = span.permits - 1 }
    end
    out[#out + 1] = span
    before = span.last
  end
  return out
end

-- Cuts what a spacing tells into cells that need none, at most so many more.
local function cut(queue, spans, most)
  local out, permits, spacing = {}, 0, queue.spacing
  for _, span in ipairs(spans) do permits = permits + span.permits end
  local size = max(1, ceil(permits / most))
  for _, span in ipairs(spans) do
    local last, rest = span.first and span.first - spacing, span.permits
    while last and rest > size do
      last, rest = last + size * spacing, rest - size
      out[#out + 1] = { last = last, permits = size, first = false }
    end
    out[#out + 1] = { last = span.last, permits = rest, first = false }
  end
  return out
end

-- Whether the older span, behind a cell at before, and the newer are one row.
local function one_row(queue, older, newer, before)
  local spacing = queue.spacing
  return older.first and newer.first and older.first == before + spacing and newer.first == older.last + spacing
end

-- Merges neighbours for as long as fits(older, newer, before), in which
-- before is the slot of the cell before the older.
local function merge(queue, spans, before, fits)
  local out = {}
  for _, span in ipairs(spans) do
    local older = out[#out]
    if older and fits(older, span, before) then
      out[#out] = {
        last = span.last, permits = older.permits + span.permits, first = one_row(queue, older, span, before) and older.first
      }
    else
      before = older and older.last or before
      out[#out + 1] = span
    end
  end
  return out
end

-- Active spans merge within a cell of the grid.
local function merge_active(queue, window, spans, active)
  return merge(queue, spans, window.origin, function(older, newer)
    return active(older) and share_of(window, older.first or older.last) == share_of(window, newer.last)
  end)
end

local function count_behind(spans, active)
  local behind = 0
  while spans[behind + 1] and not active(spans[behind + 1]) do behind = behind + 1 end
  return behind
end

-- Those further back merge into equal shares of the backlog, and near the
-- clock into finer ones: when all cancel, what is left as wait is what
-- remains of the cell that the clock stands in. Nothing before the horizon
-- counts any more.
local function merge_behind(queue, window, spans, active, room, backlog)
  local share, now, horizon = backlog / room, queue.now, queue.now - window.length
  while count_behind(spans, active) > room do
    spans = merge(queue, spans, window.origin, function(older, newer, before)
      local span, away = newer.last - max(older.first or before, horizon), math.abs(older.last - now)
      return not active(newer) and span <= share * min(1, away * 8 / backlog + 0.125)
    end)
    share = share * 1.5
  end
  return spans
end

-- Writes spans into the cells of the window. While they fit nothing is lost:
-- only rows merge. Active cells merge only when the window has held more
-- distinct moments than it has cells for; but then those behind need not make
-- room for them. The tail is FIFO's, or now.
local function compact(queue, window, spans, tail)
  local length, now, spacing = window.length, queue.now, queue.spacing
  local function active(span) return span.last + length > tail end
  if spacing > 0 then
    spans = merge(queue, mark_gaps(queue, spans, window.origin), window.origin, function(older, newer, before)
      return one_row(queue, older, newer, before)
    end)
  end
  local behind, permits = count_behind(spans, active), 0
  for i = behind + 1, #spans do permits = permits + spans[i].permits end
  local blurred = window.mode == 'c' and window.until_slot > tail or spacing > 0 and permits > MOST_ACTIVE
  if #spans - behind > MOST_ACTIVE or blurred and #spans > MOST_CELLS then
    spans = merge_active(queue, window, spans, active)
    if window.mode ~= 'c' or window.until_slot <= tail then
      window.mode, window.until_slot, window.moments = 'c', tail + length, 0
    end
  end
  if #spans > MOST_CELLS then
    local room = max(1, floor((MOST_CELLS - #spans + behind) * 0.85))
    spans = merge_behind(queue, window, spans, active, room, max(length, tail - now))
  end
  close_spans(queue, window, spans)
end

-- What cells tell of a pace is no longer true: their permits stay where they
-- are known to stand now.
function forget_pace(queue)
  local opened, tail = {}, max(queue.now, (bounds(queue)))
  for i, window in ipairs(queue) do opened[i] = cut(queue, open_spans(queue, window), MOST_CELLS) end
  queue.pitch, queue.crowd, queue.spacing, queue.mixed = 0, 1, 0, 1
  for i, window in ipairs(queue) do compact(queue, window, opened[i], tail) end
end
