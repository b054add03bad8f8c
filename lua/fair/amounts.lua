-- Works off turns that count several units: it asks one log after the other.
--
-- asked[asked_from..]  for each run of equal requests: the flow (0 without),
--                      permits, longest wait, how many, cost, and how much of
--                      each unit. The cost is how many permits one is worth in
--                      the share of its flow
--
-- Takes    what mend.lua and flows.lua leave
-- Leaves   again, for grant.lua; replies: for each run of answers three numbers,
--          as in grant.lua; sums: how many turns the logs were granted
--
-- A turn goes at the latest of the slots that its units allow: nothing is booked
-- behind the tail, so what fits there fits later as well. Each unit is asked when
-- it has room, without taking it. Then calls are granted or refused. Then the
-- units are booked at that slot. Requests for calls alone ask that log only, and
-- so do those that go over the share of their flow.

local width, run, times, passes, unit = 5 + count, asked_from - 5 - count, 0, 0, 0
local stage, wanted, replies, sums, even = 'next', 0, {}, 0, pace

-- Counts what is asked. Beside other flows calls come evenly.
local function asks(i, permits, longest, so_many)
  pace = i == 0 and even or 0
  passes = passes + 1
  return ask_log(i, permits, longest, so_many)
end

-- The log of calls decides on the flow as well.
local function ask_calls(so_many)
  asks(0, asked[run + 1], asked[run + 2], so_many)
  argv[first] = asked[run]
  return true
end

local function next_unit()
  repeat unit = unit + 1 until unit > count or asked[run + 4 + unit] + 0 > 0
  return unit <= count
end

-- Whether the flow of the run may hold no more turns.
local function is_over_share()
  local flow = asking and asking[asked[run] + 0]
  if not flow then return false end
  flow.cost = asked[run + 4] + 0
  return flow.held > 0 and flow.share - flow.held < flow.cost
end

again = function()
  if stage == 'next' then
    if times == 0 then run, times = run + width, -1 end
    if run > #asked or passes > 200 then return false end -- of one run of the script
    if times < 0 then times = asked[run + 3] + 0 end
    at_least, unit = 0, 0 -- the log of calls has the tail of all
    if is_over_share() or not next_unit() then
      wanted = times
      stage, times = 'calls', 0
      return ask_calls(wanted)
    end
    times, unit, stage = times - 1, 0, 'look'
  end
  if stage == 'look' and next_unit() then return asks(unit, asked[run + 4 + unit], -1, 1) end
  if stage == 'look' then
    stage = 'turn'
    return ask_calls(1)
  end
  if next_unit() then return asks(unit, asked[run + 4 + unit], MOST_SLOT, 1) end
  stage = 'next'
  return again()
end
