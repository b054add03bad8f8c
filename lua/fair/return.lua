-- Gives back what turns do not use. What they used beyond their permits is a debt:
-- it counts at the newest slot, so that those who ask later pay for it.
--
-- ARGV[5..]  for each turn: its id, its slot, how much less counts in the share of
--            its flow, and how much less in each log, below 0 for more
-- Returns    answer

-- Reads a column of the arguments: the slots at which less counts, how much less at
-- each, and the sum of the debts. Turns of another id are left as they are.
local function returned(column)
  local slots, less, debt = {}, {}, 0
  for turn = 5, #ARGV, 3 + units do
    local amount = ARGV[turn + column] + 0
    if ARGV[turn] + 0 == queue.id and amount > 0 then
      slots[#slots + 1] = ARGV[turn + 1] + 0
      less[#less + 1] = amount
    elseif ARGV[turn] + 0 == queue.id then
      debt = debt - amount
    end
  end
  return slots, less, debt
end

-- The place of the cell at which a slot counts, nil if it counts no more.
local function place_of(cells, slot)
  if slot <= cells[1] + 0 then return end
  for i = 3, #cells, 2 do
    if cells[i] + 0 >= slot then return i end
  end
end

-- Lets less count at some slots of a log, but never less than nothing. The total
-- stays: the scores of older cells rise instead. Returns the newest slot that still
-- has permits, 0 if none has.
local function give_back(log, slots, less)
  close(log)
  if log.is_new then return 0 end
  local cells, less_at = call('ZRANGE', log.key, 0, -1, 'WITHSCORES'), {}
  if not cells[1] then return queue.tail end
  for k, slot in ipairs(slots) do
    local i = place_of(cells, slot)
    if i then less_at[i] = (less_at[i] or 0) + less[k] end
  end
  local newest, freed, risen, emptied = 0, 0, { log.key }, { log.key }
  for i = #cells - 1, 1, -2 do
    local permits = i > 1 and cells[i + 1] - cells[i - 1] or math.huge -- the base stays
    if permits <= (less_at[i] or 0) then
      emptied[#emptied + 1] = cells[i]
      freed = freed + permits
    else
      if i > 1 then newest = max(newest, cells[i] + 0) end
      if freed > 0 then
        risen[#risen + 1] = cells[i + 1] + freed
        risen[#risen + 1] = cells[i]
      end
      freed = freed + (less_at[i] or 0)
    end
  end
  if risen[2] then call('ZADD', unpack(risen)) end
  if emptied[2] then call('ZREM', unpack(emptied)) end
  return newest
end

local debts, tail = {}, 0
for u, log in ipairs(logs) do
  local slots, less, debt = returned(2 + u)
  tail = max(tail, give_back(log, slots, less))
  debts[u] = debt
end
queue.tail = tail
for u, log in ipairs(logs) do
  if debts[u] > 0 then book(log, tail, debts[u]) end
end
local slots, less = returned(2)
if slots[1] then give_back({ key = FLOW }, slots, less) end
write()
return answer()
