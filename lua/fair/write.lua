-- Writes the queue.
--
-- Reads      now, the queue, the logs and their functions
-- Leaves     write; answer: what every script returns first

-- Returns for how long the queue lives: until nothing counts, for least milliseconds,
-- and for as long as it was going to. Whoever finds no head takes the queue for lost.
local function write(least)
  local counts_until = max(queue.tail + queue.span, queue.from) + queue.offset
  local ttl = format('%d', max((counts_until - now) / 1000 + 1, call('PTTL', KEYS[1]), least or 1))
  for u, log in ipairs(logs) do
    if log.unwritten then
      write_log(log)
      if call('ZCARD', log.key) > CELLS then thin(log, windows[u]) end
    end
    call('PEXPIRE', log.key, ttl)
  end
  head = format('%d %d %d %d %d %d %d %d %s', queue.id, queue.void, queue.from, queue.offset, now, queue.span,
    queue.tail, logs[1].total, ARGV[3])
  call('PSETEX', KEYS[1], ttl, head)
  return ttl
end

-- The head; the offset less the server's time; 0 if nothing was written, 1 if
-- something was, 2 if something was restored; the total of each further unit. They
-- stand before what else a script returns.
local function answer(wrote, all)
  all = all or {}
  all[1], all[2], all[3] = head or '', queue.offset - now, wrote and (restored and 2 or 1) or 0
  for u = 2, units do all[2 + u] = logs[u].total end
  return all
end
