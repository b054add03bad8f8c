-- Tells the news, and restores what was lost.
--
-- KEYS, ARGV[1..5]  see head.lua
--
-- Returns  the news as in clock.lua, '' if there is no queue

if fresh and not must then return '' end
if not unusual then return format('%s %d 0 0 0 0 0 0 %d 0 0', sub(name, 1, 8), now, server) end
local kept, granted, changed, marked = counts_for and counts_for() or 0, 0, true, true
