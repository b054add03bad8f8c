-- Pauses one flow: none of its callers is granted a turn before the end.
--
-- KEYS, the last one  the flow's log: see ceiling.lua
-- ARGV[first]         for how long; if it is paused for longer anyway, that counts.
--                     Where the clock is slow, it lasts longer: turns that are
--                     given back can let the clock run as usual before the end

local flow_log, upto = KEYS[#KEYS], now + late + math.max(0, argv[first] - rest) + 1
local before, whose = match(call('ZRANGEBYSCORE', flow_log, '-2', '-2')[1] or '', '^pause (%d+) (%w+)')
if whose ~= sub(name, 1, 8) or before + 0 < upto then
  call('ZREMRANGEBYSCORE', flow_log, '-2', '-2')
  call('ZADD', flow_log, '-2', format('pause %d %s', upto, sub(name, 1, 8)))
end
local needs = math.ceil(wait_for(upto) / 1000) + 3600000
if not call('ZRANGEBYSCORE', flow_log, '-3', '-3')[1] and call('PTTL', flow_log) < needs then
  call('PEXPIRE', flow_log, format('%d', needs))
end
lives, must = math.max(lives, upto), true
