-- Tells how things stand.
--
-- KEYS, ARGV[1..]  see head.lua and grant.lua: one request for one permit that
--                  is refused in any case, as it accepts a wait of -1
--
-- Takes    what grant.lua and cells.lua leave
-- Leaves   available, queued

local slots, totals = {}, {}
if not fresh then slots, totals = read_cells() end

-- How many permits stand within a length before the end of a cell.
local function permits_in(length)
  local permits = 0
  for w = 6, windows_end, 3 do
    local times = floor(length / argv[w + 1])
    permits, length = permits + times * argv[w], length - times * argv[w + 1]
  end
  return permits
end

-- The sequence up to a moment, as the cells tell.
local function total_until(at)
  local low, high = 1, #slots + 1
  while low < high do
    local middle = floor((low + high) / 2)
    if slots[middle] > at then high = middle else low = middle + 1 end
  end
  local passed = totals[low - 1] or base
  if not slots[low] then return passed end
  if coarse > now then return passed end
  return math.max(passed, totals[low] - permits_in(slots[low] - at - 1) - least)
end

local passed = (label_in and not (wait_for(now) == 0)) and now - 1 or now
local available, queued = 2 ^ 53, 0
if last + kept > now then queued = sequence - total_until(passed) end
for w = 6, windows_end, 3 do
  local free = argv[w] - sequence + (last + kept > now and total_until(now - argv[w + 1]) or sequence)
  available = math.min(available, free)
end
if ahead > 0 or passed < now then available = 0 end
