-- Pauses the queue: its clock stands still from now on.
--
-- KEYS, ARGV[1..5]  see head.lua
-- ARGV[first]       for how long; if it is paused for longer anyway, that counts

local for_long = argv[first] + 0
if for_long > rest then stand_still(for_long) end
must = true
