-- Gives back what turns do not use. What they used beyond their permits is a debt:
-- it counts at the newest slot, so that those who ask later pay for it.
--
-- ARGV[REST..]  for each turn: its id, its slot, how much less counts in the share
--            of its flow, and how much less in each log, below 0 for more
-- Returns    answer

-- The slots, and how much less counts at each, by a column of the arguments; then
-- how much more counts. Turns of another id are left as they are.
local function returned(column)
  local slots, less, debt = {}, {}, 0
  for at = REST, #ARGV, 3 + units do
    local amount = ARGV[at + column] + 0
    if ARGV[at] + 0 == queue.id and amount > 0 then
      slots[#slots + 1] = ARGV[at + 1] + 0
      less[#less + 1] = amount
    elseif ARGV[at] + 0 == queue.id then
      debt = debt - amount
    end
  end
  return slots, less, debt
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
local held = call('ZREVRANGE', FLOW, 0, 0, 'WITHSCORES')
if held[2] then give_back(log_of(FLOW, held[2] + 0), returned(2)) end
write()
return answer(true)
