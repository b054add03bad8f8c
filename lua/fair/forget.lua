-- Stands in for open.lua where whatever the key holds is to go.
--
-- Takes    what head.lua leaves
-- Leaves   as open.lua; the state is false, and a key without a TTL has none

local state = false
local left = math.max(0, call('PTTL', key))
local time = call('TIME')
local server = time[1] * 1000000 + time[2]
