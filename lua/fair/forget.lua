-- Stands in for open.lua where whatever the key holds is to go.
--
-- Takes    what head.lua leaves
-- Leaves   as open.lua; the state is false, and a key without a TTL has none.
--          A head without windows gets those of what goes, if it has some

local state = false
local left = math.max(0, call('PTTL', key))
local time = call('TIME')
local server = time[1] * 1000000 + time[2]
if sub(head, 7, -4) == '' then
  local text = redis.pcall('GET', key)
  local word = type(text) == 'string' and string.match(text, '^fair4 ([%d/,]+) [-+] ')
  if word then head = table.concat({ 'fair4 ', word, ' - ' }) end
end
