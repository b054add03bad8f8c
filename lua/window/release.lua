-- Releases permits, whoever took them: out of the oldest grants in the zset.
--
-- Lapsed grants are the oldest. Permits released out of them are free anyway.
-- So the release of a permit whose grant has lapsed frees nobody else's, as
-- long as that grant is in the zset: until somebody asks.
--
-- KEYS     see head
-- ARGV[1]  how many permits, at least 1
--
-- Returns  how many of them are still to be released by asking again; 0 if no
--          more are taken; -1 if there is no rule
--
-- Takes    all that head, count, save and free leave

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

-- Each holds a permit at least, but those of old versions that hold none.
local most = math.min(n, 128)
local oldest = redis.call('ZRANGE', grants_key, 0, most - 1)
local sizes = {} -- all are read before the first write
for rank, grant in ipairs(oldest) do
  sizes[rank] = permits_of(grant)
end
for rank, grant in ipairs(oldest) do
  local has = sizes[rank]
  local some = math.min(has, n)
  local made = redis.call('ZSCORE', grants_key, grant)
  redis.call('ZREM', grants_key, grant)
  if some < has then
    redis.call('ZADD', grants_key, made, shrunk(grant, has - some))
  end
  free(some)
  n = n - some
  if n == 0 then break end
end
freed()
if #oldest < most then return 0 end
return n
