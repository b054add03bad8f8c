-- Reads what there is: once each, as before Redis 7.2 time goes on inside a
-- script.
--
-- Takes    what head.lua leaves
-- Leaves   state (false if there is none), left (ms that the key has to live),
--          server (its time)

local state = call('GET', key)
local left = state and call('PTTL', key)
local time = call('TIME')
local server = time[1] * 1000000 + time[2]
