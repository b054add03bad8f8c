-- Tells how things stand. It writes only what was lost and the caller knows.
--
-- KEYS, ARGV[1..3]  see head.lua
--
-- Returns  { permits to be had now, permits queued, wait for one more, news },
--          the news as in clock.lua, or '' if there is no queue
-- Errors   STATE: the key holds something else. Nothing was changed.

-- How many permits of the histogram stand after the moment, as far as it tells.
local function permits_after(histogram, moment)
  local sum, bucket = 0, histogram and bucket_at(histogram, moment + 1)
  for i, permits in ipairs(histogram and counts_of(histogram, {}) or {}) do
    if histogram.first + i - 1 >= bucket then sum = sum + permits end
  end
  return sum
end

local queue = read()
local _, lost = begin(queue)
local now, available, queued, news = queue.now, nil, nil, ''
local passed = is_ahead(queue, now) and now - 1 or now
local tail = after_what_was_lost(queue, math.max(now, (bounds(queue))))
for i = 1, queue.asked do
  local window = queue[i]
  local free = window.most - queue.sequence + total_until(queue, window, now - window.length)
  local ahead = queue.sequence - total_until(queue, window, passed)
  if window.origin > passed then ahead = ahead + permits_after(window.behind, passed) end
  available, queued = math.min(available or free, free), math.min(queued or ahead, ahead)
end
local slot = earliest(queue, tail, 1, 1)
if not (slot < 2 ^ 52) then damaged() end
if lost then
  local _, _, problem = write(queue)
  if problem then return problem end
end
if state or lost then
  news = news_of(queue)
elseif sub(head, 7, -4) == '' then
  return { 0, 0, 0, news }
end
if tail > now or queue.rest > 0 then available = 0 end
return { math.max(0, available), math.max(0, queued), wait_for(queue, slot), news }
