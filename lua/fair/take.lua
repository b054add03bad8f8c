-- Takes permits for requests, one after the other.
--
-- ARGV[RUNS..]  for each run of equal requests: how many; the longest wait in
--            microseconds; 1 if their turns were made void; what one costs in the
--            share of its flow; how much of each unit one takes
-- Returns    answer, and for each run of equal decisions: the slot, the verdict, and
--            for how many requests. NOT_YET: they may ask again at the slot

local RUNS = AFTER_WINDOWS + 4
local REFUSED, GRANTED, NOT_YET = 0, 1, 2 -- the values of engine.Verdict
local GRACE = 500000 -- for so long after its newest slot a flow counts as active

local somebody_waited = queue.void > queue.id - queue.offset
-- Whoever waited at a requeue asks before others.
local others_ask_at = somebody_waited and queue.id + WITHIN or 0

-- Decides about the first of so many requests of a run, and those that fare alike.
local function decide(run, left)
  if now < others_ask_at and ARGV[run + 2] ~= '1' then return others_ask_at - queue.offset, NOT_YET, left end
  if flow and flow.held > 0 and flow.held + ARGV[run + 3] > flow.share then
    flow.held = math.huge -- nobody behind goes first
    return flow.frees, NOT_YET, left
  end
  local slot, more = earliest(ARGV, run + 4)
  if spacing > 0 then slot = max(slot, queue.tail + spacing * ARGV[run + 4]) end
  if slot > running() + ARGV[run + 1] then return slot, REFUSED, left end
  return slot, GRANTED, flow and 1 or math.min(left, more + 1) -- a flow's room changes with each grant
end

local granted = false

-- Grants so many requests of a run.
local function grant(run, slot, count)
  for u = 1, units do
    local amount = ARGV[run + 3 + u]
    if amount ~= '0' then book(logs[u], slot, count * amount) end
  end
  if flow then
    local cost = count * ARGV[run + 3]
    book(flow, slot, cost)
    flow.held = flow.held + cost
    if flow.frees == 0 then flow.frees = slot end
  end
  queue.tail, granted = slot, true
end

local decisions, n = { 0, 0, 0 }, 3 -- behind those of answer
for run = RUNS, #ARGV, 4 + units do
  local left = ARGV[run] + 0
  while left > 0 do
    local slot, verdict, count = decide(run, left)
    if verdict == GRANTED then grant(run, slot, count) end
    if decisions[n - 2] == slot and decisions[n - 1] == verdict then
      decisions[n] = decisions[n] + count
    else
      decisions[n + 1], decisions[n + 2], decisions[n + 3] = slot, verdict, count
      n = n + 3
    end
    left = left - count
  end
end

if granted or restored then
  logs[units + 1] = flow -- is written as they are
  local ttl = write()
  if flow and granted then
    call('ZADD', FLOWS, format('%d', queue.tail + GRACE), member)
    call('PEXPIRE', FLOWS, ttl)
  end
end
return answer(decisions)
