-- Takes permits for flows, up to the share of each.
--
-- KEYS, ARGV[1..]  see head.lua, flows.lua and grant.lua
--
-- Returns  { text, news, shares, then answers }: as take.lua. The shares are the
--          words of entries.lua
-- Errors   STATE: the key holds something else. Nothing was changed.

local text_of = told and told .. format(' %d 0', offset) or ''
local reply = { text_of, unusual and (told or not fresh) and news() or '', asking.words, ahead, together, step }
for i = 6, 3 * groups + 2 do reply[i + 1] = answers[i] end
return reply
