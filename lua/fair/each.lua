-- Asks one log after the other how it stands, without taking anything.
--
-- asked[asked_from]  which one alone, counted from 0; none: all of them
--
-- Takes    what mend.lua leaves
-- Leaves   again, for grant.lua: one request for one permit that is refused in
--          any case; stood: of each log what status.lua tells

local stood, sums, unit = {}, 0, (asked[asked_from] or count) + 1
again = function()
  unit = unit - 1
  if unit < 0 or stood[0] or asked[asked_from] and stood[asked[asked_from] + 0] then return false end
  at_least = tail_of(0)
  return ask_log(unit, 1, -1, 1)
end
