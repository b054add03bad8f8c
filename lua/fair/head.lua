-- The head of every script of the queue: what all of them are given.
--
-- KEYS[1]  the queue
-- ARGV[1]  what a plain state of the caller's windows begins with:
--          'fair4 <windows> - ', the windows as <most permits>/<length>,...;
--          without any, those that the queue has are meant
-- ARGV[2]  the position that the caller saw last, '' if none:
--          '<generation> <epoch> <sequence> <clock>', as the state has them
-- ARGV[3]  what goes with it:
--          '<fresh> <newest slot> <end> <pause's end> <left> <newest slot>
--          <lost> <reset's end>', moments in the server's time, how much is
--          left of the pause by the caller's, and by the queue's clock the
--          newest slot and the slot up to which all counts as full, 0 if
--          nothing was lost; the reset is one that came before what the caller
--          saw; fresh is a word of 8 letters never used before, for the next
--          generation
--
-- Leaves   key, head, seen; call, sub, format; this_server, SILENCE,
--          replication, MOST_LINES
--
-- Times and lengths are microseconds, whole numbers below 2^53. The words and
-- samples of a state are in fair/doc.go.
--
-- Each run makes all functions anew. A local name that one of them uses costs a
-- step then for each such name that is declared after it. So names that most of
-- them would use stay global, as math.max does.

local key, head, seen = KEYS[1], ARGV[1], ARGV[2]
local call, sub, format = redis.call, string.sub, string.format

-- The server that runs this, in 7 letters: in which page of memory its
-- interpreter lies. The operating system draws that anew for each process.
-- SCRIPT FLUSH may change it. What is no Redis and knows no breakpoints, as
-- miniredis, makes an interpreter for each run: it counts as one server.
local function this_server()
  if not redis.breakpoint then return '0000000' end
  local address = tostring(redis) -- 'table: 0x7f7a6222b340'
  if #address < 17 then address = table.concat({ '0000000000', string.match(address, '%w*$') }) end
  return sub(address, -10, -4)
end

-- How long the state must not have been written for the server to have become a
-- replica meanwhile and be the primary again: no failover is shorter.
local SILENCE = 100000

-- The history of the server's data, in 8 letters: each promotion of a replica
-- begins another. Nil if the server does not tell.
local function replication()
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.match(info, 'master_replid:(%w%w%w%w%w%w%w%w)') or nil
end

-- How long the cells of a window and the line of its histogram get before it
-- is compacted; see cells.lua.
local MOST_LINES = 2995
