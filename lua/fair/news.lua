-- Returns  the news as in clock.lua

return news()
