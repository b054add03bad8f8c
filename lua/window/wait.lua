-- Tells how long a request has to wait.
--
-- Takes    what head and count leave
-- Leaves   wait_for

local scores = {} -- of the grants that were looked at

-- The time in µs until n permits are free: 0, or at least 1. Where more than
-- COUNTED grants have to leave first, it is the time until so many have left.
-- So it is never too long. A score in the future is from a peer whose clock is
-- ahead, or from before this server's clock went back. It counts as now.
local function wait_for(n)
  if n <= left then return 0 end
  if not totals then
    local _, sums = add_up(lapsed, COUNTED)
    totals = sums
  end
  local low, high = 1, #totals
  while low < high do
    local middle = math.floor((low + high) / 2)
    if totals[middle] >= n - left then
      high = middle
    else
      low = middle + 1
    end
  end
  if not scores[low] then
    local rank = lapsed + low - 1
    scores[low] = math.min(tonumber(redis.call('ZRANGE', grants_key, rank, rank, 'WITHSCORES')[2]), now_up)
  end
  return (scores[low] + interval) * 1000 - now
end

