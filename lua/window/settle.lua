-- Settles the grants that have lapsed: they leave the zset.
--
-- Takes    now_up, decimal, COUNTED; left_key, left_text, grants_key, lapsed,
--          lapsed_permits
-- Leaves   lapsed, lapsed_permits   0, if settle returned true
--          settle   function

-- Removes at most COUNTED grants. If more have lapsed it returns false: the
-- script ends there and its caller asks again.
local function settle()
  if lapsed > 0 then
    redis.call('ZREMRANGEBYRANK', grants_key, 0, math.min(lapsed, COUNTED) - 1)
  end
  if lapsed > COUNTED then
    if left_text then
      redis.call('INCRBY', left_key, decimal(lapsed_permits))
    end
    return false
  end
  lapsed, lapsed_permits = 0, 0
  -- A grant dated in the future counts from now on.
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', grants_key, '(' .. decimal(now_up), '+inf', 'LIMIT', 0, 100)) do
    redis.call('ZADD', grants_key, decimal(now_up), member)
  end
  return true
end

