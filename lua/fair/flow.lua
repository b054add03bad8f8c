-- The share of the caller's flow: how many permits it may hold ahead.
--
-- FLOWS      a sorted set of the active flows: '<weight> <id>', and the label
--            until which each counts as active
-- FLOW       the log of this flow
-- ARGV[AFTER_WINDOWS..]  the flow, '' for none; how many permits it may hold ahead if
--            it is alone; how many all flows may if it is not; how far apart permits
--            stand then, in microseconds
-- Reads      now, queue, log_of
-- Leaves     member: the flow as FLOWS has it; flow, nil for none: its log, its share,
--            how many permits it holds, and when the first of them pass; spacing

local MOST = 100 -- so many flows are looked at

local member = ARGV[AFTER_WINDOWS]
local flow, spacing = nil, 0

if member ~= '' then
  call('ZREMRANGEBYSCORE', FLOWS, '-inf', now - queue.offset)
  local newest = head and call('ZSCORE', FLOWS, member) and call('ZREVRANGE', FLOW, 0, 0, 'WITHSCORES')
  flow = log_of(FLOW, newest and newest[2])
  flow.held, flow.frees = 0, 0
end

-- The cells that have passed are dropped, but for the newest of them. The flow holds
-- the others.
if flow and not flow.is_new then
  local cells, passed
  repeat
    cells, passed = call('ZRANGE', FLOW, 0, 4, 'WITHSCORES'), 0
    while cells[2 * passed + 3] and cells[2 * passed + 3] + 0 <= now - queue.offset do passed = passed + 1 end
    if passed > 0 then call('ZREMRANGEBYRANK', FLOW, 0, passed - 1) end
  until passed < 4
  flow.held, flow.frees = flow.total - cells[2 * passed + 2], (cells[2 * passed + 3] or 0) + 0
end

if flow then
  local weight, other_weights = match(member, '^%d+') + 0, 0
  for _, other in ipairs(call('ZRANGE', FLOWS, 0, MOST - 1)) do
    if other ~= member then other_weights = other_weights + match(other, '^%d+') end
  end
  if other_weights == 0 then
    flow.share = ARGV[AFTER_WINDOWS + 1] + 0
  else
    local part = weight / (weight + other_weights)
    flow.share = max(weight, math.floor(ARGV[AFTER_WINDOWS + 2] * part))
    spacing = ARGV[AFTER_WINDOWS + 3] + 0
  end
end
