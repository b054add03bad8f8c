-- Removes what has lapsed, and writes the permits left and how long the keys live.
--
-- Takes    what head and count leave
-- Leaves   settle, save

-- Grants that have lapsed leave the zset. One that is dated in the future counts
-- from now on.
local function settle()
  if lapsed > 0 then redis.call('ZREMRANGEBYRANK', grants_key, 0, lapsed - 1) end
  lapsed, lapsed_permits = 0, 0
  for _, grant in ipairs(redis.call('ZRANGEBYSCORE', grants_key, '(' .. decimal(now_up), '+inf', 'LIMIT', 0, 100)) do
    redis.call('ZADD', grants_key, decimal(now_up), grant)
  end
end

-- The number is that of the whole zset: whoever removes what has lapsed adds its
-- permits. It is written as it is. Below 0, Redisson refuses until enough of the
-- zset has left, as these scripts do. A floor at 0 would let it grant too many.
--
-- The keys live as long as keepAliveTime says, else as long as the hash. In its
-- last millisecond PTTL is 0. They end then, too, but not before it.
local function save()
  local text = decimal(left - lapsed_permits)
  if text ~= left_text then redis.call('SET', left_key, text) end
  local life = keep_alive
  if life > 0 then
    redis.call('PEXPIRE', hash, decimal(life))
  else
    life = redis.call('PTTL', hash)
  end
  for _, key in ipairs({ left_key, grants_key }) do
    if life >= 0 then
      redis.call('PEXPIRE', key, decimal(math.max(1, life)))
    elseif life == -1 then
      redis.call('PERSIST', key)
    end
  end
end

