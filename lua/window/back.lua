-- Gives back grants that were not used: their permits are free at once.
--
-- ARGV     the grants, at most 128
--
-- Returns  how many of them were still there, or -1: old grants had to be cleared away, and none was given back; ask again

local grants = ARGV

if not load() then return 0 end
survey()
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
