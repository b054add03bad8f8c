-- A log: a sorted set of cells. The member of a cell is a slot, its score the
-- running total of permits granted up to that slot. So permit p counts at the
-- slot of the first cell whose score is at least p.
--
-- Without a cell its permits count at the next newer one, which makes turns
-- later, never sooner. So any cell may be dropped. The oldest one is the base:
-- what is up to it counts no more.
--
-- Reads      the queue, KEYS and units of open.lua
-- Leaves     logs: one for each unit; log_of, slot_of, write_log, book; windows: at
--            which argument those of each log begin, see windows.lua

-- A log in which so many permits were granted. Without a total it is new: what its
-- key may hold is deleted at the first write.
local function log_of(key, total) return { key = key, total = total or 0, is_new = not total } end

local windows = {}
local logs = { log_of(KEYS[2], queue.total > 0 and queue.total or nil) }
for u = 2, units do
  local newest = head and call('ZREVRANGE', KEYS[u + 1], 0, 0, 'WITHSCORES') or {}
  logs[u] = log_of(KEYS[u + 1], newest[2] and newest[2] + 0)
end

-- The slot at which a permit counts, and the last permit that counts there. If the
-- cells that would tell are missing, that slot is the tail.
local function slot_of(log, permit)
  if log.unwritten and permit > log.written then return log.unwritten, log.total end
  if not log.cached_to or permit > log.cached_to or permit < log.cached_from then
    local cell = call('ZRANGEBYSCORE', log.key, permit, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    log.cached_from, log.cached_to = permit, (cell[2] or log.total) + 0
    log.cached_slot = (cell[1] or queue.tail) + 0
  end
  return log.cached_slot, log.cached_to
end

-- Writes the cell that book began.
local function write_log(log)
  if not log.unwritten then return end
  if log.is_new then
    if call('ZCARD', log.key) > 0 then call('DEL', log.key) end
    call('ZADD', log.key, 0, 0)
    log.is_new = false
  end
  call('ZADD', log.key, log.total, format('%d', log.unwritten))
  log.unwritten = nil
end

-- Lets permits count at a slot, which is the newest. The cell is written once
-- another one begins, or with the head.
local function book(log, slot, permits)
  if log.unwritten ~= slot then
    write_log(log)
    log.written, log.unwritten = log.total, slot
  end
  log.total = log.total + permits
end
