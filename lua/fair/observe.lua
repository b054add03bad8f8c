-- Books what is available of a unit and not left upstream.
--
-- asked[asked_from]      which unit, counted from 0
-- asked[asked_from + 1]  how much is left
--
-- Takes    what seen.lua leaves
-- Leaves   again, for grant.lua; owed, for owed.lua: nothing of it is a debt

local owed = {}
again = function()
  local permits = stood[unit] and stood[unit].available - asked[asked_from + 1] or 0
  if permits < 1 then return false end
  stood[unit] = nil
  at_least = tail_of(0)
  return ask_log(unit, permits, 0, 1)
end
unit = asked[asked_from] + 0
