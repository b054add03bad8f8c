-- Takes permits for requests, one after the other.
--
-- ARGV[AFTER + 4..]  for each run of equal requests: how many; the longest wait in
--            microseconds; 1 if their turns were made void; what one costs in the
--            share of its flow; how much of each unit one takes
-- Returns    answer, and for each run of equal answers a slot and a count: above 0
--            so many are granted, below 0 so many are refused, and 0 if all that
--            are left of the run may ask again at the slot

local GRACE = 500000 -- for so long after its newest slot a flow counts as active
local WITHIN = 1000000 -- for so long after a requeue whoever waited asks before others

local answers, granted, last_slot = answer(false), false, nil
local somebody_waited = queue.void > queue.id - queue.offset
local others_ask_at = somebody_waited and queue.id + WITHIN or 0

-- Grants a request so many times. Its amounts begin at ARGV[at].
local function grant(slot, at, cost, times)
  for u = 1, units do
    if ARGV[at + u - 1] ~= '0' then book(logs[u], slot, times * ARGV[at + u - 1]) end
  end
  if flow then
    book(flow, slot, times * cost)
    flow.held = flow.held + times * cost
    if flow.frees == 0 then flow.frees = slot end
  end
  queue.tail, granted = slot, true
end

for at = AFTER + 4, #ARGV, 4 + units do
  local left, latest, cost = ARGV[at] + 0, now - queue.offset + ARGV[at + 1], ARGV[at + 3] + 0
  while left > 0 do
    local slot, more, verdict
    if now < others_ask_at and ARGV[at + 2] ~= '1' then
      slot, verdict = others_ask_at - queue.offset, 0
    elseif flow and flow.held > 0 and flow.held + cost > flow.share then
      slot, verdict = flow.frees, 0
      flow.held = math.huge -- nobody behind goes first
    else
      slot, more = earliest(ARGV, at + 4)
      if spacing > 0 then slot = max(slot, queue.tail + spacing * ARGV[at + 4]) end
      if slot > latest then
        verdict = -left
      else
        verdict = flow and 1 or math.min(left, more + 1) -- a flow's room changes with each grant
      end
    end
    if verdict > 0 then grant(slot, at + 4, cost, verdict) end
    if verdict > 0 and slot == last_slot then
      answers[#answers] = answers[#answers] + verdict
    else
      answers[#answers + 1] = slot
      answers[#answers + 1] = verdict
    end
    last_slot = verdict > 0 and slot or nil
    left = verdict > 0 and left - verdict or 0
  end
end

local wrote = granted or restored
if wrote then
  logs[units + 1] = flow -- is written as they are
  local ttl = write()
  if flow and granted then
    call('ZADD', FLOWS, format('%d', queue.tail + GRACE), member)
    call('PEXPIRE', FLOWS, ttl)
  end
end
return answer(wrote, answers)
