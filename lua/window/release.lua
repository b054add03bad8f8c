-- Releases permits, whoever took them: out of the oldest grants in the zset.
--
-- Lapsed grants are the oldest. Permits released out of them are free anyway.
-- So the release of a permit whose grant has lapsed frees nobody else's, as
-- long as that grant is in the zset: until somebody asks.
--
-- KEYS     see head
-- ARGV[1]  how many permits, at least 1
-- Returns  1, or -1 if there is no rule

local n = tonumber(ARGV[1])

if not load() then return -1 end
count()

-- The same grant with fewer permits.
local function shrunk(grant, permits)
  local bytes = {}
  for i = 1, 4 do
    bytes[i] = permits % 256
    permits = math.floor(permits / 256)
  end
  return string.sub(grant, 1, -5) .. string.char(unpack(bytes))
end

local whole, rest, part = 0, n, nil -- so many grants go, and the rest is of this one
while rest > 0 and not part do
  local grant, made = unpack(redis.call('ZRANGE', grants_key, whole, whole, 'WITHSCORES'))
  if not grant then break end
  if permits_of(grant) <= rest then
    whole, rest = whole + 1, rest - permits_of(grant)
  else
    part = { grant = grant, made = made }
  end
end
if whole > 0 then redis.call('ZREMRANGEBYRANK', grants_key, 0, whole - 1) end
if part then
  redis.call('ZREM', grants_key, part.grant)
  redis.call('ZADD', grants_key, part.made, shrunk(part.grant, permits_of(part.grant) - rest))
  rest = 0
end
left = left + n - rest -- see back
save()
return 1
