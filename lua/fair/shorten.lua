-- Lets the clock run as ever behind what is left after a return: what comes
-- there may be of other quotas.
--
-- Takes    what release.lua leaves

if freed > 0 then slow_up_to(last) end
