-- Tells how all units stand.
--
-- KEYS, ARGV[1..]  see head.lua and units.lua
--
-- Returns  { permits to be had now, permits queued, wait for one more, news, then
--          of each further unit what is to be had now and what is queued }: as
--          stands.lua
-- Errors   STATE: a key holds something else. Nothing was changed.

local slot, told_news = now + stood[0].ahead, ''
if not fresh or must then
  told_news = unusual and news() or format(plain_news, name, sequence, clock, last, now, server)
end
local reply = { stood[0].available, stood[0].queued, unusual and wait_for(slot) or stood[0].ahead, told_news }
for i = 1, count do
  reply[#reply + 1] = stood[i].available
  reply[#reply + 1] = stood[i].queued
end
return reply
