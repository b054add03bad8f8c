-- Notes what was booked of a debt. Pieces that lie ahead are noted by their slots,
-- so that refunds can cancel them.
--
-- Takes    what debts.lua or observe.lua, grant.lua and compact.lua leave

answers = answers or { '', '', ahead, together, step }
for i = 3, 3 * groups, 3 do
  local slot, booked = now + answers[i], answers[i + 1]
  if owed[unit] and booked < 0 then
    owed[unit] = 0 -- the queue is full
  elseif owed[unit] then
    owed[unit] = owed[unit] - booked
    local apart, owes = answers[i + 2], unit > 0 and owes_of(logs[unit])
    for later = apart > 0 and math.max(0, booked - TAGS) or 0, owes and (apart > 0 and booked - 1 or 0) or -1 do
      owes[#owes + 1] = { slot + later * apart, apart > 0 and 1 or booked }
    end
  end
end
sums = sums + granted
logs[at].dirty = logs[at].dirty or granted > 0
