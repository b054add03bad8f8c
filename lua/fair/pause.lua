-- Pauses the queue: its clock stands still from now on, at a label that it has
-- not shown before, so that all turns from now on are ahead.
--
-- KEYS, ARGV[1..5]  see head.lua
-- ARGV[first]       for how long; if it is paused for longer anyway, that counts

local for_long = argv[first] + 0
if for_long > rest then
  if rest == 0 then now = now + 1 end
  stand_still(for_long)
end
must = true
