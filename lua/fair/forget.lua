-- Lets whatever the key holds go. If it was a queue, and the caller has no
-- windows, those of the queue stay.
--
-- Takes    what fields.lua leaves
-- Leaves   left: as if there were no key; had: how long it had to live

local had = math.max(0, left)
if head == '' then
  local state = redis.pcall('GET', key)
  local words = type(state) == 'string' and match(state, '^fair5 [%d/,]+ ........\n')
  if words then
    head = words
    local _, windows = string.gsub(words, ',', '')
    p, size = #head, #head + 191 + 22 * (windows + 1)
  end
end
left, watermark = -2, ''
