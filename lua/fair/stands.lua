-- Returns  { permits to be had now, permits queued, wait for one more, news },
--          the news as in clock.lua, or '' if there is no queue
-- Errors   STATE: the key holds something else. Nothing was changed.

if fresh and not must and ARGV[1] == '' then return { 0, 0, 0, '' } end
local slot = now + ahead
local told_news = ''
if not fresh or must then
  told_news = unusual and news() or format(plain_news, name, sequence, clock, last, now, server)
end
return { math.max(0, available), math.max(0, queued), unusual and wait_for(slot) or ahead, told_news }
