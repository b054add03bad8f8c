-- Writes the queue.
--
-- Reads      now, queue, logs, close, thin, restored
-- Leaves     head, wrote, write

-- Returns for how many milliseconds the queue lives: until nothing counts, at least
-- `least`, and no shorter than it was going to. Whoever finds no head takes the queue
-- for lost.
local function write(least)
  queue.span = max(queue.span, ARGV[2] + 0)
  local counts_until = max(queue.tail + queue.span, queue.stood_at) + queue.offset
  local ttl = format('%d', max((counts_until - now) / 1000 + 1, call('PTTL', HEAD), least or 1))
  local totals = format('%d', logs[1].total)
  for u = 2, units do totals = totals .. format(',%d', logs[u].total) end
  for _, log in ipairs(logs) do
    if log.open_slot then
      close(log)
      if call('ZCARD', log.key) > CELLS then thin(log) end
    end
    call('PEXPIRE', log.key, ttl)
  end
  head = format('%d %d %d %d %d %d %d %s %s', queue.id, queue.void, queue.stood_at, queue.offset, now, queue.span,
    queue.tail, totals, ARGV[3])
  call('PSETEX', HEAD, ttl, head)
  wrote = restored and 2 or 1
  return ttl
end
