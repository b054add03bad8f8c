-- Deletes keys of one limiter.
--
-- KEYS     those of window.lua: all are deleted
-- ARGV[1]  'keep' to leave the hash, if it holds a rule that can be read, or ''
--
-- Returns  how many of them there were

local keys, keep = KEYS, ARGV[1] == 'keep'

local readable, found = pcall(load)
if keep and readable and found then
  return redis.call('DEL', unpack(keys, 2))
end
return redis.call('DEL', unpack(keys))
