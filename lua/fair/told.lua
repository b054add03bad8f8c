-- Returns  { text, news }: the text '' if nothing was written, else
--          '<generation> <epoch> <sequence> <clock> <newest slot>'; the news as in
--          clock.lua

return { told or '', news() }
