local function coarsen(histogram)
  local counts, joined, odd = counts_of(histogram, {}), {}, histogram.first % 2
  if odd == 1 then joined[1] = counts[1] end
  for i = 1 + odd, #counts, 2 do joined[#joined + 1] = counts[i] + (counts[i + 1] or 0) end
  histogram.level = histogram.level + 1
  set_counts(histogram, floor(histogram.first / 2), joined)
end
local function new_histogram(window, slot)
  local histogram = { level = 0, first = 0, count = 0, width = 0, text = '' }
  if window.most == 1 then
    histogram.from, histogram.period, histogram.cells, histogram.laps = slot + 1, window.length, 1, 1
  else
    histogram.from, histogram.period, histogram.cells, histogram.laps = 0, window.period, window.cells, window.laps
  end
  return histogram
end
local function add_permits(histogram, more, bucket, permits)
  if histogram.count + #more == 0 then histogram.first = bucket end
  local at = bucket - histogram.first - histogram.count + 1
  if at < 1 and #more == 0 then
    local newest = histogram.first + histogram.count - 1
    more[1] = permits_in(histogram, newest)
    if histogram.count > 1 then drop_back(histogram, newest - 1) else histogram.count, histogram.text = 0, '' end
  end
  for i = #more + 1, at do more[i] = 0 end
  more[#more] = more[#more] + permits
end
local function flush(histogram, more)
  append(histogram, more)
  for i = #more, 1, -1 do more[i] = nil end
end
local function add_run(histogram, permits)
  local width, one = histogram.width, {}
  if width > 0 then
    histogram.text = histogram.text .. string.rep(sub(format('%12d', 1), -width), permits)
    histogram.count = histogram.count + permits
    return
  end
  for i = 1, min(permits, -(histogram.first + histogram.count) % 4) do one[i] = 1 end
  permits = permits - #one
  flush(histogram, one)
  local whole = floor(permits / 4)
  histogram.text, histogram.count = histogram.text .. string.rep('f', whole), histogram.count + 4 * whole
  for i = 1, permits - 4 * whole do one[i] = 1 end
  append(histogram, one)
end
local function make_room(histogram, more, first, slot, interval)
  local oldest = histogram.count + #more > 0 and histogram.first or bucket_at(histogram, first)
  if bucket_at(histogram, slot) - oldest < MOST_BUCKETS then return end
  flush(histogram, more)
  histogram.first = oldest
  while true do
    local single = histogram.width == 0
      and (first == slot or histogram.level == 0 and histogram.cells == 1 and histogram.period <= interval)
    if bucket_at(histogram, slot) - histogram.first < (single and MOST_BITS or MOST_BUCKETS) then return end
    coarsen(histogram)
  end
end
local function spread(queue, window, more, slot, permits)
  local histogram, interval, length = window.behind, queue.spacing, window.length
  if not histogram or histogram.count + #more == 0 then
    histogram = new_histogram(window, slot)
    window.behind = histogram
  elseif window.most == 1 then
    local late = (slot + 1 - histogram.from) % length
    if late <= floor(length / 64) then histogram.from = histogram.from + late end
  end
  local first = interval > 0 and slot - (permits - 1) * interval or slot
  local passed = queue.now - length - first
  if interval > 0 and passed > 0 then first = first + ceil(passed / interval) * interval end
  if first > slot then return end
  if interval == 0 then
    local bucket = bucket_at(histogram, slot)
    if histogram.count + #more > 0 and bucket - histogram.first >= MOST_BUCKETS then
      make_room(histogram, more, slot, slot, 0)
      bucket = bucket_at(histogram, slot)
    end
    return add_permits(histogram, more, bucket, permits)
  end
  make_room(histogram, more, first, slot, interval)
  while first <= slot do
    local bucket = bucket_at(histogram, first)
    local here = max(1, floor((min(slot, end_of(histogram, bucket)) - first) / interval) + 1)
    add_permits(histogram, more, bucket, here)
    first = first + here * interval
    local rest = (slot - first) / interval + 1
    if rest > 8 and histogram.level == 0 and histogram.cells == 1 and histogram.period == interval
      and bucket + 1 == histogram.first + histogram.count + #more then
      flush(histogram, more)
      return add_run(histogram, rest)
    end
  end
end
local function trim(window, passed)
  local histogram = window.behind
  if not histogram then return end
  local newest = histogram.count > 0 and newest_bucket(histogram, histogram.first + histogram.count - 1)
  local oldest = max(histogram.first, bucket_at(histogram, passed + 1))
  oldest = newest and oldest <= newest and oldest_bucket(histogram, oldest)
  if not oldest then
    window.behind = nil
    return
  end
  drop_back(histogram, newest)
  if oldest > histogram.first then drop_front(histogram, oldest) end
end
local function fold(queue, window, tail)
  local slots, counts, length, gone, more = window.slots, window.counts, window.length, 0, {}
  while slots[gone + 1] and slots[gone + 1] + length <= tail do
    gone = gone + 1
    spread(queue, window, more, slots[gone], counts[gone])
  end
  if gone > 0 then
    flush(window.behind, more)
    window.origin = slots[gone]
    for i = 1, #slots do slots[i], counts[i] = slots[gone + i], counts[gone + i] end
  end
  trim(window, queue.now - length)
end
local function unfold(window, tail)
  local histogram, slots, counts = window.behind, {}, {}
  if not histogram then return end
  local bucket, lowest = histogram.first + histogram.count - 1, histogram.first
  local newest = newest_bucket(histogram, bucket)
  while bucket >= lowest do
    local slot = newest and min(end_of(histogram, newest), newest < bucket and math.huge or window.origin)
    if newest ~= bucket then window.origin = end_of(histogram, newest or lowest - 1) end
    bucket = newest or lowest - 1
    if not newest or (window.slots[1] or slots[1]) and slot + window.length <= tail then break end
    table.insert(slots, 1, slot)
    table.insert(counts, 1, permits_in(histogram, bucket))
    bucket = bucket - 1
    window.origin = end_of(histogram, bucket)
    newest = bucket >= lowest and newest_bucket(histogram, bucket) or nil
  end
  for i = 1, #window.slots do slots[#slots + 1], counts[#counts + 1] = window.slots[i], window.counts[i] end
  window.slots, window.counts = slots, counts
  if bucket < lowest then
    window.behind, window.origin = nil, 0 -- nothing is left there, and new cells may be earlier
  else
    drop_back(histogram, bucket)
  end
end
