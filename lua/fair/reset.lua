-- Forgets everything granted. It leaves a queue without turns, which tells
-- those who know of turns that these were not lost but forgotten. They may
-- know of more than this caller and the key do, where something was lost
-- before; so it stays for an hour, or two lengths, at least, and for two days
-- if the caller knows of no quota. A pause is over.
--
-- KEYS, ARGV[1..3]  see head.lua
--
-- Takes    what write.lua leaves
-- Returns  the news, as in clock.lua

local queue = read()
queue.now = server
select_windows(queue)
local ends = match(ARGV[3], ' (%d+) %d+ %d+ %d+ %d+ %d+$') or 0
queue.reset_end = math.max(ends + 0, server + (left + 1) * 1000, server + 3600000000)
if sub(head, 7, -4) == '' then queue.reset_end = math.max(queue.reset_end, server + 172800000000) end
for _, window in ipairs(queue) do queue.reset_end = math.max(queue.reset_end, server + 2 * window.length) end
queue.reset_end = math.min(queue.reset_end, 2 ^ 52 - 1)
local _, _, problem = write(queue)
return problem or news_of(queue)
