-- Gives permits back. Nobody moves up: what lies ahead of turns still held
-- frees room in the windows, what lies at the tail makes the queue shorter.
--
-- KEYS, ARGV[1..3]  see head.lua
-- ARGV[4..]  for each grant: generation, slot, permits, '<epoch> <sequence>' with
--            which it was granted, 1 if nobody has used it else 0
--
-- Returns  how many were given back, the others having passed or gone, or
--          being of another history
-- Errors   STATE: the key holds something else. Nothing was changed.

-- Takes permits out of the first bucket or cell at or after their slot that
-- has as many. It is their own, or one that they were moved to: permits are
-- known to stand at their slot or later. A cell keeps its slot, even if it was
-- theirs: the safe side. Up to the slot gone nothing is in the window any more,
-- or never was, if it was begun later.
local function give_back(window, slot, permits, gone)
  local slots, counts, histogram = window.slots, window.counts, window.behind
  if slot <= gone then return end
  if slot <= window.origin and histogram and histogram.count > 0 then
    local bucket = math.max(histogram.first, bucket_at(histogram, slot))
    while bucket and bucket < histogram.first + histogram.count do
      if take_out(histogram, bucket, permits) then return end
      bucket = oldest_bucket(histogram, bucket + 1)
    end
  end
  local low, high = 1, #slots + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if slots[middle] >= slot then high = middle else low = middle + 1 end
  end
  while counts[low] and counts[low] < permits do low = low + 1 end
  if not counts[low] then return end
  counts[low] = counts[low] - permits
  if counts[low] == 0 then
    table.remove(slots, low)
    table.remove(counts, low)
  end
end

-- The grants that can still be given back: of this generation and this history,
-- ahead or known to be unused.
local function still_held(queue)
  local held = {}
  for i = 4, #ARGV, 5 do
    local slot, permits = ARGV[i + 1] + 0, ARGV[i + 2] + 0
    local place = ARGV[i] == queue.generation and place_of(queue, ARGV[i + 3], slot)
    local back = is_ahead(queue, slot) or ARGV[i + 4] == '1'
    if back and place then held[#held + 1] = { slot = place, permits = permits } end
  end
  return held
end

-- No turn that is held is later than the newest cell of any window. So what a
-- window has later than that, as returns came from where it had been moved to,
-- counts there.
local function pull_forward(window, newest)
  local slots, counts, permits, n = window.slots, window.counts, 0, #window.slots
  newest = math.max(newest, window.origin)
  while n > 0 and slots[n] > newest do
    permits = permits + counts[n]
    slots[n], counts[n] = nil, nil
    n = n - 1
  end
  if permits > 0 and n > 0 and slots[n] == newest then
    counts[n] = counts[n] + permits
  elseif permits > 0 then
    slots[n + 1], counts[n + 1] = newest, permits
  end
end

if not state and seen == '' then return 0 end
local queue = read()
local noted, lost = begin(queue, true)
local held = still_held(queue)
if #held > 0 then
  local tail, newest, upto = math.max(queue.now, (bounds(queue))), nil, math.huge
  for _, window in ipairs(queue) do
    open_log(queue, window)
    open_rows(queue, window, tail)
    local gone = math.max(queue.now - window.length, window.behind and 0 or window.origin)
    for _, turn in ipairs(held) do give_back(window, turn.slot, turn.permits, gone) end
    unfold(window, math.huge)
    local last = window.slots[#window.slots] or 0
    newest, upto = math.min(newest or last, last), math.min(upto, last > 0 and last or queue.now - window.length)
  end
  tail = math.max(queue.now, newest)
  for _, window in ipairs(queue) do
    pull_forward(window, upto)
    unfold(window, tail)
    compact_open(queue, window, tail)
  end
end
if #held > 0 or noted or lost then
  local _, _, problem = write(queue)
  if problem then return problem end
end
return #held
