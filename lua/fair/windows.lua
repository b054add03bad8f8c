-- The windows of the caller, and what they allow.
--
-- ARGV[5..]  for each log: how many numbers follow, then for each window its
--            permits and its length in microseconds
-- Reads      queue, clock, logs, slot_of
-- Leaves     AFTER_WINDOWS: the first argument behind them; earliest

local AFTER_WINDOWS = 5
for _, log in ipairs(logs) do
  log.first_window, log.last_window = AFTER_WINDOWS + 1, AFTER_WINDOWS + ARGV[AFTER_WINDOWS]
  AFTER_WINDOWS = log.last_window + 1
end

-- The earliest slot for amounts[at] calls and what follows of each further unit. In
-- a window of N, permit total + n has to wait until its blocker, permit total + n - N,
-- has left the window. Returns as well how many further equal requests surely fit at
-- this slot.
local function earliest(amounts, at)
  local slot, more = max(queue.tail, clock()), math.huge
  for u, log in ipairs(logs) do
    local permits = amounts[at + u - 1] + 0
    for w = log.first_window, permits > 0 and log.last_window or 0, 2 do
      local blocker, last_there = log.total + permits - ARGV[w], 0
      if blocker > 0 then
        local blocker_slot
        blocker_slot, last_there = slot_of(log, blocker)
        slot = max(slot, blocker_slot + ARGV[w + 1])
      end
      more = math.min(more, math.floor((last_there - blocker) / permits))
    end
  end
  return slot, more
end
