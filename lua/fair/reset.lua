-- Forgets everything granted. It leaves a queue without turns, which tells
-- those who know of turns that these were not lost but forgotten. They may
-- know of more than this caller and the key do, where something was lost
-- before; so it stays for an hour, or two lengths, at least, and for two days
-- if the caller knows of no quota. A pause is over. It ends later than resets
-- that are noted or that the caller knows of: else those who know of these would
-- not take it for another, where the server's clock has been set back since.
--
-- KEYS, ARGV[1..5]  see head.lua
--
-- Leaves   a header for write.lua

local at, ends_in, known_reset =
  match(argv[3], '^%w+ (%d+) %d+ %d+ %d+ %d+ (%d+) %d+ (%d+)')
reset_end = math.max(at + ends_in, server + (had + 1) * 1000, server + 3600000000, known_reset + 1, noted_reset + 1)
if ARGV[1] == '' then reset_end = math.max(reset_end, server + 172800000000) end
for _, window in ipairs(windows) do reset_end = math.max(reset_end, server + 2 * window.length) end
reset_end = math.min(reset_end, 2 ^ 52 - 1)
lives, must = reset_end, true
