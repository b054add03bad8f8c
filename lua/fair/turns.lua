-- Takes permits of several units.
--
-- KEYS, ARGV[1..]  see head.lua, units.lua and amounts.lua
--
-- Returns  { text, news, sequences, then answers }: as take.lua, and up to which
--          sequence each unit is: see count.lua. For flows their words stand in
--          front of the answers: see entries.lua
-- Errors   STATE: a key holds something else. Nothing was changed.

local text_of = told and told .. format(' %d 0', offset) or ''
local reply = { text_of, unusual and (told or not fresh) and news() or '', sequences, asking and asking.words }
local said = #reply
for i = 1, #replies do reply[said + i] = replies[i] end
return reply
