-- Pauses one flow: none of its callers is granted a turn before the end.
--
-- KEYS, the last one  the flow's log: see ceiling.lua
-- ARGV[first]         for how long; if it is paused for longer anyway, that counts

local flow_log, upto = KEYS[#KEYS], label_in(argv[first] + 0) + 1
local whose = 'generation ' .. sub(name, 1, 8)
if not call('ZSCORE', flow_log, whose) then
  call('ZREMRANGEBYSCORE', flow_log, '-2', '+inf')
  call('ZADD', flow_log, '-1', whose)
end
local before = call('ZRANGEBYSCORE', flow_log, '-2', '-2')[1]
if not before or match(before, '%d+') + 0 < upto then
  call('ZREMRANGEBYSCORE', flow_log, '-2', '-2')
  call('ZADD', flow_log, '-2', format('pause %d', upto))
end
local needs = math.ceil(wait_for(upto) / 1000) + 3600000
if not call('ZRANGEBYSCORE', flow_log, '-3', '-3')[1] and call('PTTL', flow_log) < needs then
  call('PEXPIRE', flow_log, format('%d', needs))
end
lives, must = math.max(lives, upto), true
