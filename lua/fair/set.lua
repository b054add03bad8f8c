-- Stores quotas beside the queue, and makes it one of theirs. What was lost and
-- the caller knows of is restored.
--
-- KEYS[1], ARGV[1..3]  see head.lua
-- KEYS[2]              where they are stored
-- ARGV[4]              the text, '' to forget what is stored
-- ARGV[5]              as ARGV[1], of the quotas that the caller went by so far
--
-- Returns  the news as in clock.lua, '' if there is no queue
-- Errors   STATE: the key of the queue holds something else. Nothing was changed.

-- A queue that is gone is first restored as one of the quotas so far, as if
-- somebody had asked just before. Then it has become one of others, and the
-- turns that are held come as far apart as these allow.
local function restore()
  local becomes = head
  head = ARGV[5]
  local queue = read()
  local _, lost = begin_unchanged(queue)
  head = becomes
  if not lost then return nil end
  local _, _, problem = write(queue)
  state = call('GET', key)
  return problem, queue.healed
end

local lost_problem, healed
if not state and seen ~= '' then lost_problem, healed = restore() end
if lost_problem then return lost_problem end
local queue = state and read()
if queue then begin(queue) end -- an error here changes nothing
local reply = redis.pcall('SET', KEYS[2], ARGV[4])
if reply.err then return redis.error_reply(reply.err) end
if not queue then return '' end
queue.healed = queue.healed or healed
local _, _, problem = write(queue)
return problem or news_of(queue)
