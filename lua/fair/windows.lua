-- The windows of the caller, and what they allow.
--
-- ARGV[REST..]  for each log: how many numbers follow, then for each window its
--            permits and its length in microseconds
-- Reads      the queue, the logs and slot_of
-- Leaves     AFTER: the first argument behind the windows; earliest

local AFTER = REST
for u = 1, units do
  windows[u] = AFTER
  AFTER = AFTER + ARGV[AFTER] + 1
end

-- The earliest slot for amounts[at] calls and what follows of each further unit. A
-- window of N permits holds them once the permit N before the last of them leaves.
-- Returns as well how many further equal requests surely fit at this slot.
local function earliest(amounts, at)
  local slot, more = max(queue.tail, clock()), math.huge
  for u, log in ipairs(logs) do
    local permits, first = amounts[at + u - 1] + 0, windows[u]
    for w = first + 1, permits > 0 and first + ARGV[first] or 0, 2 do
      local leaves, last = log.total + permits - ARGV[w], 0
      if leaves > 0 then
        local left_at
        left_at, last = slot_of(log, leaves)
        slot = max(slot, left_at + ARGV[w + 1])
      end
      more = math.min(more, math.floor((last - leaves) / permits))
    end
  end
  return slot, more
end
