-- Lets whatever the key holds go. If it was a queue, and the caller has no
-- windows, those of the queue stay.
--
-- Takes    what fields.lua leaves
-- Leaves   left: as if there were no key; had: how long it had to live;
--          noted_reset: the end of a reset that was noted, 0 if there was none

local had, noted_reset = math.max(0, left), 0
local forgotten = redis.pcall('GET', key)
local words = type(forgotten) == 'string' and match(forgotten, '^fair5 [%d/,]+ ........\n')
if words then
  local _, commas = string.gsub(words, ',', '')
  local words_size = #words + 191 + 22 * (commas + 1)
  noted_reset = (match(sub(forgotten, words_size + CELLS * WIDTH + 1), '^ *%d+ +(%d+) ') or 0) + 0
  if head == '' then
    head = words
    p, size = #head, words_size
  end
end
left, watermark = -2, ''
