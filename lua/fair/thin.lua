-- Keeps a log short: drops the cells that count no more, then cells that stand close
-- before another one.
--
-- Reads      now, the queue and the windows
-- Leaves     thin; CELLS: a log with more is thinned

local CELLS = 512
local ENOUGH = 384 -- to so many at most
local FINENESS = 64 -- cells of one window stand apart by this part of its length, or more if need be

-- first is the argument with which the windows of the log begin, nil for none.
local function thin(log, first)
  -- The length of the shortest window that reaches back for so long; that time
  -- itself if no window does.
  local function reach(age)
    local shortest = math.huge
    for w = first and first + 2 or 1, first and first + ARGV[first] or 0, 2 do
      if ARGV[w] + 0 >= age then shortest = math.min(shortest, ARGV[w]) end
    end
    return shortest < math.huge and shortest or age
  end

  local cells, base, expired = call('ZRANGE', log.key, 0, -1, 'WITHSCORES'), 1, {}
  while cells[base + 2] and cells[base + 2] + queue.span <= now - queue.offset do
    expired[#expired + 1] = cells[base]
    base = base + 2
  end
  local newest, close, fineness = cells[#cells - 1] + 0, {}, FINENESS
  while #cells / 2 - #expired - #close > ENOUGH do
    local kept = newest
    close = {}
    for i = #cells - 3, base + 2, -2 do
      if kept - cells[i] <= reach(newest - cells[i]) / fineness then
        close[#close + 1] = cells[i]
      else
        kept = cells[i] + 0
      end
    end
    fineness = fineness / 2
  end
  if expired[1] then call('ZREM', log.key, unpack(expired)) end
  if close[1] then call('ZREM', log.key, unpack(close)) end
end
