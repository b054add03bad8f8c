-- Deletes the keys of one limiter.
--
-- KEYS     see head: all are deleted
-- ARGV[1]  'keep' to leave the hash if its rule can be read, or ''
--
-- Returns  how many keys there were

if ARGV[1] == 'keep' and pcall(load) then return redis.call('DEL', unpack(KEYS, 2)) end
return redis.call('DEL', unpack(KEYS))
