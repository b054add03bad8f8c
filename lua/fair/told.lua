-- Returns  { text, news }: the text '' if nothing was written, else
--          '<generation> <epoch> <sequence> <clock> <newest slot>'; the news as in
--          clock.lua, '' if there is no queue

return { told or '', fresh and not must and '' or news() }
