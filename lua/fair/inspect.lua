-- Reads all that is stored of a queue at one moment. Nothing is changed.
--
-- KEYS[1]  the queue
-- KEYS[2]  its stored quotas, and
-- KEYS[3]  its units; both left out if a Cluster keeps them elsewhere
--
-- Returns  { the server's time, ms that the queue has to live (-1: for ever, -2:
--          there is none), the state, the stored quotas, the units }: '' for a
--          text that is not there
-- Errors   STATE, WRONGTYPE: a key holds no text

local time, state = redis.call('TIME'), redis.call('GET', KEYS[1])
local texts = { KEYS[2] and redis.pcall('GET', KEYS[2]) or '', KEYS[3] and redis.pcall('GET', KEYS[3]) or '' }
for i, what in ipairs({ 'stored quotas that are no text', 'units that are no text' }) do
  if type(texts[i]) == 'table' then
    local foreign = string.find(texts[i].err, 'WRONGTYPE', 1, true)
    return redis.error_reply(foreign and 'STATE ' .. what or texts[i].err)
  end
end
return { time[1] * 1000000 + time[2], redis.call('PTTL', KEYS[1]), state or '', texts[1], texts[2] }
