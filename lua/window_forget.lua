-- Deletes keys of one limiter.
--
-- KEYS     which, the hash first
-- ARGV[1]  'keep' to leave the hash, if it is one, or ''
--
-- Returns  how many of them there were

local keys, keep = KEYS, ARGV[1] == 'keep'

if keep and redis.call('TYPE', keys[1]).ok == 'hash' then
  return redis.call('DEL', unpack(keys, 2))
end
return redis.call('DEL', unpack(keys))
