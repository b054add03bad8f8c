-- Frees permits, whoever took them: out of the oldest grants, which is the strict side.
--
-- KEYS     see head
-- ARGV[1]  how many permits
--
-- Returns  how many of them are still to be freed by asking again; 0 where no more are taken; -1 if there is no rule

local n = tonumber(ARGV[1])

if not load() then return -1 end
count()
if not settle() then return n end

for _, grant in ipairs(redis.call('ZRANGE', grants_key, 0, math.min(n, 128) - 1)) do
  local has = permits_of(grant)
  local freed = math.min(has, n)
  local score = redis.call('ZSCORE', grants_key, grant)
  redis.call('ZREM', grants_key, grant)
  held = held - 1
  if freed < has then
    local rest, bytes = has - freed, {}
    for i = 1, 4 do
      bytes[i] = rest % 256
      rest = math.floor(rest / 256)
    end
    redis.call('ZADD', grants_key, score, string.sub(grant, 1, -5) .. string.char(unpack(bytes)))
    held = held + 1
  end
  left = left + freed
  n = n - freed
  if n == 0 then break end
end
save()
if held == 0 then return 0 end
return n
