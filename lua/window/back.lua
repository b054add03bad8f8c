-- Gives back grants that were not used: their permits are free at once.
--
-- KEYS     see head
-- ARGV     the grants
-- Returns  how many of them were still there

if not load() then return 0 end
count()

local found = 0
for _, grant in ipairs(ARGV) do
  if redis.call('ZREM', grants_key, grant) > 0 then
    -- If it had lapsed, it was free already, and lapsed_permits would become
    -- less. save writes the difference, which is the same.
    left = left + permits_of(grant)
    found = found + 1
  end
end
save()
return found
