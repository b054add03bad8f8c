-- Compares the quotas that are stored beside the queue with those that the
-- caller knows. As long as they are the same the script goes on.
--
-- KEYS[2]     where they are stored, as text; '' says that they were forgotten
-- ARGV, last  the text that the caller knows, '' if none, '*' if whatever is stored
--             will do. It is taken away, so that the parts behind find theirs
--
-- Takes    what head.lua leaves
-- Returns  'QUOTA <text>' if another text is stored. Nothing was changed
-- Errors   STATE: no text is stored

local knows = table.remove(argv)
local stored = knows == '*' and knows or redis.pcall('GET', KEYS[2])
if type(stored) == 'table' then
  local foreign = string.find(stored.err, 'WRONGTYPE', 1, true)
  return redis.error_reply(foreign and 'STATE stored quotas that are no text' or stored.err)
end
if stored and stored ~= knows then return 'QUOTA ' .. stored end
if not stored and knows ~= '' then -- the server has lost it
  local reply = redis.pcall('SET', KEYS[2], knows)
  if reply.err then return redis.error_reply(reply.err) end
end
