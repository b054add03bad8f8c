-- The head of every script of the queue: its arguments, and what all of them
-- call things.
--
-- KEYS[1]  the queue
-- ARGV[1]  what a state of the caller's windows begins with:
--          'fair5 <windows> <stored>\n', the windows from the longest to the
--          shortest as <most permits>/<length>/<cells>,...; '' without any,
--          then those that the queue has are meant
-- ARGV[2]  the watermark that the caller saw last, '' if none:
--          '<generation> <epoch> <sequence> <clock>', as the state has them
-- ARGV[3]  what goes with it: see recover.lua; it begins with a word of 8
--          letters never used before, for the next generation
-- ARGV[4]  the last byte of a header with these windows, counted from 0
-- ARGV[5]  how many windows
-- ARGV[6..]  for each window: most permits, length, cells of its grid
--
-- Leaves   key, head, watermark, argv, p, size, windows_end (the last of these
--          arguments), first (the next); CELLS, WIDTH, NOTES, SILENCE,
--          MOST_SLOT; plain_news, the form of news; call, sub, byte, format, floor, match
--
-- Times and lengths are microseconds, whole numbers below 2^53. fair/doc.go
-- describes the state, field by field.

local CELLS, WIDTH = 206, 15 -- the ring: so many cells of so many bytes
local NOTES = 1024           -- bytes behind it that are kept for the notes
local SILENCE = 100000       -- no failover takes less time than this
local MOST_SLOT = 2 ^ 52     -- slots and permits are less, so that sums stay exact

local plain_news = '%s%16d %16d %16d %d 0 0 0 0 %d 0 1 -' -- if the clock runs: see clock.lua

local key, head, watermark, argv = KEYS[1], ARGV[1], ARGV[2], ARGV
local call, sub, byte, format, floor, match =
  redis.call, string.sub, string.byte, string.format, math.floor, string.match
local p, size, windows_end = #head, argv[4] + 1, 5 + 3 * argv[5]
local first = windows_end + 1
