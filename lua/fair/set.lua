-- Stores quotas beside the queue.
--
-- KEYS[2]  where they are stored
-- ARGV[1]  the text, '' to forget what is stored
--
-- Returns  ''

local reply = redis.pcall('SET', KEYS[2], ARGV[1])
return reply.err and redis.error_reply(reply.err) or ''
