local state = call('GET', key)
local left = state and call('PTTL', key)
local time = call('TIME')
local server = time[1] * 1000000 + time[2]
