-- Compares the quotas that are stored beside the queue with those that the
-- caller knows, for limiters that look for them. As long as they are the same
-- the script goes on.
--
-- KEYS[2]     where they are stored, as text; '' says that they were forgotten
-- ARGV, last  the text that the caller knows, '' if none, behind a mark: '!' if
--             nothing has been asked under it since it was learned, '?' if the
--             caller knew of no other before that, else '='. It is taken away,
--             so that the parts behind find theirs
--
-- Takes    what head.lua leaves
-- Leaves   changed, whether the mark was not '='; begins, whether it was '?'
-- Returns  'QUOTA <text>' if another text is stored. Nothing was changed
-- Errors   STATE: no text is stored

local knows = table.remove(ARGV)
local changed, begins = sub(knows, 1, 1) ~= '=', sub(knows, 1, 1) == '?'
knows = sub(knows, 2)
local stored = redis.pcall('GET', KEYS[2])
if type(stored) == 'table' then
  local foreign = string.find(stored.err, 'WRONGTYPE', 1, true)
  return redis.error_reply(foreign and 'STATE stored quotas that are no text' or stored.err)
end
if stored and stored ~= knows then return table.concat({ 'QUOTA ', stored }) end
if not stored and knows ~= '' then -- the server has lost it
  local reply = redis.pcall('SET', KEYS[2], knows)
  if reply.err then return redis.error_reply(reply.err) end
end
