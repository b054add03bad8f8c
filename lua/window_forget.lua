-- Deletes keys of one limiter.
--
-- KEYS     which
--
-- Returns  how many of them there were

local keys = KEYS

return redis.call('DEL', unpack(keys))
