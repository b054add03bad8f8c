local function permits_after(histogram, moment)
  local sum, bucket = 0, histogram and bucket_at(histogram, moment + 1)
  for i, permits in ipairs(histogram and counts_of(histogram, {}) or {}) do
    if histogram.first + i - 1 >= bucket then sum = sum + permits end
  end
  return sum
end
local queue = read()
local _, lost = begin(queue)
local now, available, queued = queue.now, nil, nil
local tail = after_what_was_lost(queue, max(now, (bounds(queue))))
for i = 1, queue.asked do
  local window = queue[i]
  local free = window.most - queue.sequence + total_until(queue, window, now - window.length)
  local ahead = queue.sequence - total_until(queue, window, now)
  if window.origin > now then ahead = ahead + permits_after(window.behind, now) end
  available, queued = min(available or free, free), min(queued or ahead, ahead)
end
local slot = earliest(queue, tail, 1, 1)
if not (slot < 2 ^ 52) then damaged() end
if lost then
  local _, _, problem = write(queue)
  if problem then return problem end
end
return { tail > now and 0 or max(0, available), max(0, queued), slot - now }
