local function give_back(window, slot, permits, gone)
  local slots, counts, histogram = window.slots, window.counts, window.behind
  if slot <= gone then return end
  if slot <= window.origin and histogram and histogram.count > 0 then
    local bucket = max(histogram.first, bucket_at(histogram, slot))
    while bucket and bucket < histogram.first + histogram.count do
      if take_out(histogram, bucket, permits) then return end
      bucket = oldest_bucket(histogram, bucket + 1)
    end
  end
  local low, high = 1, #slots + 1
  while low < high do
    local middle = floor((low + high) / 2)
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
local function pull_forward(window, newest)
  local slots, counts, permits, n = window.slots, window.counts, 0, #window.slots
  newest = max(newest, window.origin)
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
  local tail, newest, upto = max(queue.now, (bounds(queue))), nil, math.huge
  for _, window in ipairs(queue) do
    open_log(queue, window)
    open_rows(queue, window, tail)
    local gone = max(queue.now - window.length, window.behind and 0 or window.origin)
    for _, turn in ipairs(held) do give_back(window, turn.slot, turn.permits, gone) end
    unfold(window, math.huge)
    local last = window.slots[#window.slots] or 0
    newest, upto = min(newest or last, last), min(upto, last > 0 and last or queue.now - window.length)
  end
  tail = max(queue.now, newest)
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
