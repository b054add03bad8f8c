-- A log: a sorted set of cells. The member of a cell is a slot, its score the
-- running total of permits granted up to that slot. So permit p counts at the
-- slot of the first cell whose score is at least p.
--
-- Without a cell its permits count at the next newer one, which makes turns
-- later, never sooner. So any cell may be dropped. The oldest one is the base:
-- what is up to it counts no more.
--
-- Reads      units, queue
-- Leaves     logs: one for each unit; log_of, slot_of, close, book

local function log_of(key, total)
  total = (total or 0) + 0
  return {
    key = key,
    total = total, -- the permits granted
    is_new = total == 0, -- what its key may hold is deleted at the first write
    open_slot = false, -- of the newest cell, as long as that is not written
    closed_total = 0, -- the total without the open cell
    cached_slot = 0, -- of the cell that was read last
    cached_from = 0, -- permits from this one
    cached_to = -1, -- up to this one count there
    first_window = 1, -- where the caller's windows begin and end: see windows.lua
    last_window = 0,
  }
end

local logs = {}
for u = 1, units do logs[u] = log_of(KEYS[4 + u], queue.totals[u]) end

-- The slot at which a permit counts, and the last permit that counts there. If the
-- cells that would tell are missing, that slot is the tail.
local function slot_of(log, permit)
  if log.open_slot and permit > log.closed_total then return log.open_slot, log.total end
  if permit > log.cached_to or permit < log.cached_from then
    local cell = call('ZRANGEBYSCORE', log.key, permit, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    log.cached_from, log.cached_to = permit, (cell[2] or log.total) + 0
    log.cached_slot = (cell[1] or queue.tail) + 0
  end
  return log.cached_slot, log.cached_to
end

-- Writes the open cell.
local function close(log)
  if not log.open_slot then return end
  if log.is_new then
    if call('ZCARD', log.key) > 0 then call('DEL', log.key) end
    call('ZADD', log.key, 0, 0)
    log.is_new = false
  end
  call('ZADD', log.key, log.total, format('%d', log.open_slot))
  log.open_slot = false
end

-- Lets permits count at a slot, which is the newest. Its cell is open: it is written
-- once another one begins, or with the head.
local function book(log, slot, permits)
  if log.open_slot ~= slot then
    close(log)
    log.open_slot, log.closed_total = slot, log.total
  end
  log.total = log.total + permits
end
