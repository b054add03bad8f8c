-- Stores quotas beside the queue, and makes it one of theirs.
--
-- KEYS[1], ARGV[1..3]  see head.lua
-- KEYS[2]              where they are stored
-- ARGV[4]              the text, '' to forget what is stored
--
-- Returns  the news as in clock.lua, '' if there is no queue
-- Errors   STATE: the key of the queue holds something else. Nothing was changed.

local queue = state and read()
if queue then begin(queue) end -- an error here changes nothing
local reply = redis.pcall('SET', KEYS[2], ARGV[4])
if reply.err then return redis.error_reply(reply.err) end
if not queue then return '' end
local _, _, problem = write(queue)
return problem or news_of(queue)
