-- Gives back grants that were not used: their permits are free at once.
--
-- KEYS     see head
-- ARGV     the grants, at most 128
--
-- Returns  how many of them were still there, or -1: lapsed grants had to be
--          removed, and none was given back; ask again
--
-- Takes    all that head, count, settle and save leave

local grants = ARGV

if not load() then return 0 end
count()
if not settle() then return -1 end

local found = 0
for _, grant in ipairs(grants) do
  if redis.call('ZREM', grants_key, grant) == 1 then
    found = found + 1
    held = held - 1
    left = left + permits_of(grant)
  end
end
save()
return found
