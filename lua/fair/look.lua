-- Tells the news and nothing else.
--
-- KEYS, ARGV[1..3]  see head.lua
--
-- Returns  the news as in clock.lua, '' if there is no queue
-- Errors   STATE: the key holds something else

local queue = read_notes(first, last)
set_clock(queue)
return news_of(queue)
