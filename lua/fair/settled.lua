-- Tells what is left of debts.
--
-- Returns  { text, news, sequences, then of each unit, calls first, what of its
--          debts is not booked yet }: see turns.lua
-- Errors   STATE: a key holds something else. Nothing was changed.

local reply = { told and told .. format(' %d 0', offset) or '', fresh and not must and '' or news(), sequences }
for i = 0, count do reply[4 + i] = owed[i] or 0 end
return reply
