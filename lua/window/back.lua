-- Gives back grants that were not used: their permits are free at once.
--
-- KEYS     see head
-- ARGV     the grants, at most 128
--
-- Returns  how many of them were still there
--
-- Takes    all that head, count, save and free leave

local grants = ARGV

if not load() then return 0 end
count()

local found = 0
for _, grant in ipairs(grants) do
  if redis.call('ZREM', grants_key, grant) > 0 then
    free(permits_of(grant))
    found = found + 1
  end
end
freed()
return found
