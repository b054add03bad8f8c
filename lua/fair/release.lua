-- Gives permits back. Nobody moves up: what lies ahead of turns still held
-- frees room in the windows, what lies at the tail makes the queue shorter.
--
-- KEYS, ARGV[1..3]  see head.lua
-- ARGV[4..]  for each grant: generation, slot, permits, the clock at which it
--            was granted, 1 if nobody has used it else 0
--
-- Returns  how many were given back, the others having passed or gone, or
--          being of another history
-- Errors   STATE: the key holds something else. Nothing was changed.

-- Permits that fill their span leave a gap, others only their number.
local function give_back(queue, spans, slot, permits)
  local low, high, spacing = 1, #spans + 1, queue.spacing
  while low < high do
    local middle = floor((low + high) / 2)
    if spans[middle].last >= slot then high = middle else low = middle + 1 end
  end
  local span = spans[low]
  if not span or span.permits < permits then return end
  if span.first and slot >= span.first and (slot - span.first) % spacing == 0 then
    table.remove(spans, low)
    if slot < span.last then
      table.insert(spans, low, { first = slot + spacing, last = span.last, permits = (span.last - slot) / spacing })
    end
    if slot > span.first then
      table.insert(spans, low, { first = span.first, last = slot - spacing, permits = (slot - span.first) / spacing })
    end
  elseif span.permits == permits then
    table.remove(spans, low)
  else
    span.permits, span.first = span.permits - permits, false
  end
end

-- The grants that can still be given back: of this generation, not granted
-- while this history was silent, ahead or known to be unused.
local function still_held(queue)
  local held = {}
  for i = 4, #ARGV, 5 do
    local slot, permits, granted = ARGV[i + 1] + 0, ARGV[i + 2] + 0, ARGV[i + 3] + 0
    if ARGV[i] == queue.generation and (slot > queue.now or ARGV[i + 4] == '1') and not was_silent(queue, granted) then
      held[#held + 1] = { slot = slot, permits = permits }
    end
  end
  return held
end

if not state and seen == '' then return 0 end
local queue = read()
local noted, lost = begin(queue, true)
local held = still_held(queue)
if #held > 0 then
  local opened, tail = {}, nil
  for i, window in ipairs(queue) do
    local spans = open_spans(queue, window)
    for _, gone in ipairs(held) do
      if gone.slot + window.length > queue.now then give_back(queue, spans, gone.slot, gone.permits) end
    end
    local last = #spans > 0 and spans[#spans].last or 0
    opened[i], tail = spans, min(tail or last, last)
  end
  for i, window in ipairs(queue) do compact(queue, window, opened[i], max(queue.now, tail)) end
end
if #held > 0 or noted or lost then
  local _, _, problem = write(queue)
  if problem then return problem end
end
return #held
