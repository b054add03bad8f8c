-- Deletes the keys of one limiter.
--
-- KEYS     see head: all are deleted
-- ARGV[1]  'keep' to leave the hash if its rule can be read, or ''
--
-- Returns  how many keys there were
--
-- Takes    load

local keys, keep = KEYS, ARGV[1] == 'keep'

if keep and pcall(load) then
  return redis.call('DEL', unpack(keys, 2))
end
return redis.call('DEL', unpack(keys))
