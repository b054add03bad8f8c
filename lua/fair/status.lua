-- What the queue holds. Writes nothing.
--
-- ARGV[5..]  the windows, see windows.lua
-- Returns    answer; then for each log: how many permits are available now, -1 if no
--            window says so; how many lie ahead; at which slot one more would go

-- The total of a log up to a label.
local function total_until(cells, label)
  for i = #cells - 1, 3, -2 do
    if cells[i] + 0 <= label then return cells[i + 1] + 0 end
  end
  return (cells[2] or 0) + 0
end

local all, present = answer(), clock()
for u, log in ipairs(logs) do
  local cells, one_more = log.is_new and {} or call('ZRANGE', log.key, 0, -1, 'WITHSCORES'), {}
  for other = 1, units do one_more[other] = other == u and 1 or 0 end
  local slot, available = earliest(one_more, 1), -1
  for w = log.first_window, log.last_window, 2 do
    local free = ARGV[w] - (log.total - total_until(cells, present - ARGV[w + 1]))
    available = available < 0 and free or math.min(available, free)
  end
  if slot > running() then available = math.min(available, 0) end
  all[#all + 1] = available
  all[#all + 1] = log.total - total_until(cells, present)
  all[#all + 1] = slot
end
return all
