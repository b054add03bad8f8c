-- Keeps a log short: drops the cells that count no more, then cells that stand close
-- before another one.
--
-- Reads      running, queue
-- Leaves     thin; CELLS: a log with more is thinned

local CELLS = 512
local ENOUGH = 384 -- to so many at most
local FINENESS = 64 -- cells of one window stand apart by this part of its length, or more if need be

local function thin(log)
  -- The shortest window that is at least as long as an age; the age if there is none.
  local function window_of(age)
    local shortest = math.huge
    for w = log.first_window, log.last_window, 2 do
      local length = ARGV[w + 1] + 0
      if length >= age then shortest = math.min(shortest, length) end
    end
    return shortest < math.huge and shortest or age
  end

  local cells, base, expired = call('ZRANGE', log.key, 0, -1, 'WITHSCORES'), 1, {}
  while cells[base + 2] and cells[base + 2] + queue.span <= running() do
    expired[#expired + 1] = cells[base]
    base = base + 2
  end
  local newest, close_ones, fineness = cells[#cells - 1] + 0, {}, FINENESS
  while #cells / 2 - #expired - #close_ones > ENOUGH do
    local kept = newest
    close_ones = {}
    for i = #cells - 3, base + 2, -2 do
      if kept - cells[i] <= window_of(newest - cells[i]) / fineness then
        close_ones[#close_ones + 1] = cells[i]
      else
        kept = cells[i] + 0
      end
    end
    fineness = fineness / 2
  end
  if expired[1] then call('ZREM', log.key, unpack(expired)) end
  if close_ones[1] then call('ZREM', log.key, unpack(close_ones)) end
end
