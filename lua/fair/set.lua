-- Stores quotas beside the queue. What was lost and the caller knows of is
-- restored before, and the queue becomes one of theirs after.
--
-- KEYS[2]      where they are stored
-- ARGV[first]  the text, '' to forget what is stored

local reply = redis.pcall('SET', KEYS[2], argv[first])
if reply.err then return redis.error_reply(reply.err) end
if fresh and not must then return '' end
