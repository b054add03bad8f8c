-- Makes turns void, so that whoever waits asks again, before others: see take.lua.
-- Whoever is due soon may not hear of it, so these turns stay valid.
--
-- ARGV[5]    1 if what has gone counts no more either, and a pause ends
-- Returns    answer

local HOUR = 3600000 -- the head lives at least this long, in milliseconds: every sleeper can read the new id

-- Drops the cells after a label. Thinning may have joined earlier turns to the first
-- of them. So all its permits but the last count at the label. Returns the newest slot
-- that is left.
local function cut(log, label)
  close(log)
  local cells, kept = call('ZRANGE', log.key, 0, -1, 'WITHSCORES'), 0
  if log.is_new or not cells[1] then return 0 end
  while cells[2 * kept + 1] and cells[2 * kept + 1] + 0 <= label do kept = kept + 1 end
  call('ZREMRANGEBYRANK', log.key, kept, -1)
  log.total = (cells[2 * kept] or 0) + 0
  local earlier = (cells[2 * kept + 2] or 1) - 1
  if earlier > log.total then book(log, label, earlier - log.total) end
  return log.open_slot or (cells[2 * kept - 1] or 0) + 0
end

local forgets = ARGV[5] == '1'
if forgets then queue.offset = math.min(queue.offset, now - queue.stood_at) end
-- If no slot lies ahead, nobody has to hear of it, and void is what the clock shows.
local valid_until = clock() + (queue.tail > clock() and WITHIN or 0)
-- A requeue of a moment ago keeps its void.
if queue.void <= clock() then queue.void = valid_until end
queue.id = max(now, queue.id + 1)
queue.tail = 0
for u, log in ipairs(logs) do
  if forgets then
    call('DEL', log.key)
    logs[u] = log_of(log.key)
  else
    queue.tail = max(queue.tail, cut(log, valid_until))
  end
end
call('DEL', FLOWS) -- without it the logs of flows count no more
write(HOUR)
return answer()
