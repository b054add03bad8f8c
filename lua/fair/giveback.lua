-- Lets less count at some slots of a log, but never less than nothing.
--
-- Reads      the queue, the log's functions
-- Leaves     give_back

-- The permits of each cell, by its place among the cells with their scores.
local function permits_of(cells)
  local permits = {}
  for i = 3, #cells, 2 do permits[i] = cells[i + 1] - cells[i - 1] end
  return permits
end

-- The place of the cell at which a slot counts, nil if it counts no more.
local function place_of(cells, slot)
  if slot <= cells[1] + 0 then return end
  for i = 3, #cells, 2 do
    if cells[i] + 0 >= slot then return i end
  end
end

-- The total stays: the scores of older cells rise instead. Returns the newest slot
-- that still has permits, 0 if none has.
local function give_back(log, slots, less)
  write_log(log)
  if log.is_new then return 0 end
  local cells = call('ZRANGE', log.key, 0, -1, 'WITHSCORES')
  if not cells[1] then return queue.tail end
  local permits = permits_of(cells)
  for k, slot in ipairs(slots) do
    local i = place_of(cells, slot)
    if i then permits[i] = max(permits[i] - less[k], 0) end
  end
  local total, newest, changed, emptied = log.total, 0, { log.key }, { log.key }
  for i = #cells - 1, 1, -2 do
    if permits[i] == 0 then
      emptied[#emptied + 1] = cells[i]
    else
      newest = max(newest, permits[i] and cells[i] + 0 or 0)
      if cells[i + 1] + 0 ~= total then
        changed[#changed + 1] = total
        changed[#changed + 1] = cells[i]
      end
    end
    total = total - (permits[i] or 0)
  end
  if changed[2] then call('ZADD', unpack(changed)) end
  if emptied[2] then call('ZREM', unpack(emptied)) end
  return newest
end
