-- The share of the caller's flow: how many permits it may hold ahead.
--
-- FLOWS      a sorted set of the active flows: '<weight> <id>', and the label
--            until which each counts as active
-- FLOW       the log of this flow
-- ARGV[AFTER_WINDOWS..]  the flow, '' for none; how many permits it may hold ahead if
--            it is alone; how many all flows may if it is not; how far apart permits
--            stand then, in microseconds
-- Reads      head, running, log_of
-- Leaves     member: the flow as FLOWS has it; flow, nil for none: its log, its share,
--            how many permits it holds, and when the first of them pass; spacing

local MOST = 100 -- so many flows are looked at

local function greatest_divisor(a, b)
  while b > 0 do
    local rest = a % b
    a = b
    b = rest
  end
  return a
end

local member = ARGV[AFTER_WINDOWS]
local flow, spacing = nil, 0

if member ~= '' then
  call('ZREMRANGEBYSCORE', FLOWS, '-inf', running())
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
    while cells[2 * passed + 3] and cells[2 * passed + 3] + 0 <= running() do passed = passed + 1 end
    if passed > 0 then call('ZREMRANGEBYRANK', FLOW, 0, passed - 1) end
  until passed < 4
  flow.held, flow.frees = flow.total - cells[2 * passed + 2], (cells[2 * passed + 3] or 0) + 0
end

if flow then
  local weight = match(member, '^%d+') + 0
  local all_weights, divisor = weight, weight
  for _, other in ipairs(call('ZRANGE', FLOWS, 0, MOST - 1)) do
    if other ~= member then
      local others = match(other, '^%d+') + 0
      all_weights, divisor = all_weights + others, greatest_divisor(divisor, others)
    end
  end
  if all_weights == weight then
    flow.share = ARGV[AFTER_WINDOWS + 1] + 0
  else
    -- At least in the ratio of the weights: of 10 and 30, one and three.
    flow.share = max(weight / divisor, math.floor(ARGV[AFTER_WINDOWS + 2] * weight / all_weights))
    spacing = ARGV[AFTER_WINDOWS + 3] + 0
  end
end
