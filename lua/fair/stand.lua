-- Tells how all units stand.
--
-- KEYS, ARGV[1..]  see head.lua and units.lua
--
-- Returns  { permits to be had now, permits queued, wait for one more, news: as
--          stands.lua, sequences: see count.lua, then of each further unit what is
--          to be had now and what is queued }
-- Errors   STATE: a key holds something else. Nothing was changed.

local slot, told_news = now + stood[0].ahead, ''
if not fresh or must then
  told_news = unusual and news() or format(plain_news, name, sequence, clock, last, now, server)
end
local delay = unusual and wait_for(slot) or stood[0].ahead
local reply = { stood[0].available, stood[0].queued, delay, told_news, sequences }
for i = 1, count do
  reply[#reply + 1] = stood[i].available
  reply[#reply + 1] = stood[i].queued
end
return reply
