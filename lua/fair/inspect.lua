-- Reads all that is stored of a queue at one moment. Nothing is changed.
--
-- KEYS[1]  the queue
-- KEYS[2]  its stored quotas; left out if a Cluster keeps them elsewhere
--
-- Returns  { the server's time, ms that the queue has to live (-1: for ever, -2:
--          there is none), the state, the stored quotas }: '' for a text that is
--          not there
-- Errors   STATE, WRONGTYPE: a key holds no text

local time, state = redis.call('TIME'), redis.call('GET', KEYS[1])
local quotas = KEYS[2] and redis.pcall('GET', KEYS[2])
if type(quotas) == 'table' then
  local foreign = string.find(quotas.err, 'WRONGTYPE', 1, true)
  return redis.error_reply(foreign and 'STATE stored quotas that are no text' or quotas.err)
end
return { time[1] * 1000000 + time[2], redis.call('PTTL', KEYS[1]), state or '', quotas or '' }
