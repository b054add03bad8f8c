-- Stands in for open.lua where only the first and the last line are looked at,
-- so that it costs the same whatever the state's size. If the clock runs it
-- tells the news straight away.
--
-- Takes    what head.lua leaves
-- Leaves   first (and some more), last; server (the server's time)
-- Returns  as look.lua

-- A first line is not longer: 8 windows of up to 60 bytes, and ten numbers.
local MOST_FIRST = 700

local last = call('GETRANGE', key, -77, -1)
if last == '' then return '' end
local first = call('GETRANGE', key, 0, MOST_FIRST)
local time = call('TIME')
local server = time[1] * 1000000 + time[2]

local kind, at = string.match(first, '^fair4 %S+ ([-+]) ()')
local offset, reset_end = 0, 0
if kind == '+' then
  offset, reset_end = string.match(first, '^%d+ (%-?%d+) %d+ %d+ (%d+) [01]\n', at)
end
local generation, clock = string.match(last, '^\n%w+ (%w%w%w%w%w%w%w%w) %w+ +%d+ +(%d+) +%d+$')
if kind and offset and generation then
  if reset_end + 0 <= server then reset_end = 0 end
  return format('%s %d 0 0 0 %d 0 %d', generation, math.max(server + offset, clock + 0), reset_end, server)
end
