-- Settles turns, and gives turns back: first what they used and had not reserved.
-- It is booked at the tail, in as few pieces as fit, like turns for which nobody
-- waits.
--
-- asked[asked_from..]  for each turn: generation, slot, '<epoch> <sequence>' with
--                      which it was granted, how it goes back: 0 if its slot is
--                      ahead, 1 in any case, 2 if it is settled; which log of a
--                      flow it is in, see release.lua; and of each unit,
--                      calls first, how much does; negative: a debt
--
-- Takes    what mend.lua leaves
-- Leaves   again, for grant.lua; owed: of each log what is not booked yet; sums:
--          how many turns the logs were granted; width

local width, owed, unit, sums = 6 + count, {}, -1, 0
for i = 0, count do owed[i] = 0 end
for from = asked_from, #asked, width do
  local stands = asked[from] == sub(name, 1, 8) and not was_lost(asked[from + 2])
  for i = 0, stands and count or -1 do owed[i] = owed[i] + math.max(0, -asked[from + 5 + i]) end
end

-- The tail of all is that of calls: it moves, without a permit, if a unit's does
-- that lies ahead.
again = function()
  repeat unit = unit + 1 until unit > count or owed[unit] > 0
  at_least = tail_of(0)
  if unit > count + 1 or unit > count and at_least <= math.max(logs[0].last, now) then return false end
  if unit > count then return ask_log(0, 0, MOST_SLOT, 1) end
  return ask_log(unit, 1, MOST_SLOT, owed[unit])
end
