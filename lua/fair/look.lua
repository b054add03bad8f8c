-- Tells the news, and restores what was lost.
--
-- KEYS, ARGV[1..5]  see head.lua
--
-- Returns  the news as in clock.lua, '' if there is no queue

if fresh and not must then return '' end
if not unusual then return format(plain_news, name, sequence, clock, last, now, server) end
local kept, granted, changed, marked = counts_for and counts_for() or 0, 0, true, true
