-- Pauses the queue: its clock stands still from now on.
--
-- KEYS, ARGV[1..3]  see head.lua
-- ARGV[4]  for how long; if it is paused for longer anyway, that counts
--
-- Returns  { text, news }: see write.lua and clock.lua
-- Errors   STATE: the key holds something else. Nothing was changed.

local queue = read()
begin(queue, true)
pause(queue, ARGV[4] + 0)
local text, _, problem = write(queue)
return problem or { text, news_of(queue) }
