-- Tells how things stand.
--
-- KEYS, ARGV[1..]  see head.lua and grant.lua: one request for one permit that
--                  is refused in any case, as it accepts a wait of -1
--
-- Takes    what grant.lua and cells.lua leave
-- Leaves   available, queued

local slots, totals = {}, {}
if not fresh then slots, totals = read_cells() end

-- The sequence up to a moment, as the cells tell.
local function total_until(at)
  local cell = cell_from(slots, at + 1)
  local passed = totals[cell - 1] or base
  if not slots[cell] or coarse > now then return passed end
  local behind = permits_in(slots[cell] - at - 1)
  return math.max(passed, totals[cell] - behind - least)
end

local passed = (label_in and not (wait_for(now) == 0)) and now - 1 or now
local available, queued = 2 ^ 53, 0
if last + kept > now then queued = sequence - total_until(passed) end
for w = 6, windows_end, 3 do
  local free = argv[w] - sequence + (last + kept > now and total_until(now - argv[w + 1]) or sequence)
  available = math.min(available, free)
end
if ahead > 0 or passed < now then available = 0 end
