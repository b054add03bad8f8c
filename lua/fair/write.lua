-- Writes the state.
--
-- Takes    what begin.lua leaves, or recover.lua
-- Leaves   after_what_was_lost, position_of, write

-- What was lost fills every window.
local function after_what_was_lost(queue, tail)
  if queue.lost == 0 then return tail end
  for i = 1, queue.asked do tail = math.max(tail, queue.lost + queue[i].length) end
  return tail
end

-- Makes the cells as narrow as will do for some time to come.
local function rewrite(queue, window)
  local closed, count = {}, count_cells(window)
  for i = 1, count do
    closed[2 * i - 1], closed[2 * i] = slot_of(window, i), total_of(window, i)
  end
  window.closed, window.stored, window.unwritten = closed, 0, false
  local oldest = closed[1] or window.last
  window.slot_digits, window.total_digits = cell_digits(queue, window, window.last, oldest, window.base)
end

-- In base 36, so that any fits one place.
local function digit(n)
  return string.char(n < 10 and n + 48 or n + 87)
end

local function window_text(queue, window)
  if window.unwritten or window.slot_digits == 0 or not is_wide_enough(queue, window) then rewrite(queue, window) end
  local slot_digits, total_digits, closed = window.slot_digits, window.total_digits, window.closed
  local kind, cells = '.', {}
  if window.mode == 'c' then
    kind = format('c %16d %16d %3d', window.bound, window.until_slot, math.min(131, window.moments))
  elseif not queue[2] and queue.spacing > 0 and window.last > 0 then
    kind = 'r'
  end
  if #closed > 0 then
    for i = 1, #closed / 2 do
      local cell = sub(format('%16d', closed[2 * i - 1]), -slot_digits)
      cells[i] = cell .. sub(format('%16d', closed[2 * i]), -total_digits)
    end
  end
  local room = queue[2] and 0 or math.min(window.room, window.base + 10 ^ window.total_digits - 1)
  local line = format('%16d %16d %16d ', room, window.base, window.origin) .. digit(slot_digits) .. digit(total_digits)
  local kept = sub(window.text, window.at, window.at + window.stored * (slot_digits + total_digits) - 1)
  return table.concat({ line, ' ', kind, ':', kept, table.concat(cells), '\n', behind_text(window.behind) })
end

-- What lasts only as long as there is reason to keep the key for it.
local function settle_notes(queue, natural)
  local now = queue.now
  if math.max(natural, queue.ends) <= now then queue.lost = 0 end
  if queue.reset_end <= server then queue.reset_end = 0 end
  if queue.reset_end > 0 then natural = math.max(natural, label_at(queue, queue.reset_end + queue.offset)) end
  if queue.ends <= natural then
    queue.ends = natural
    return 0
  end
  return queue.ends
end

-- What makes the clock stand still or run slower, if anything does.
local function timeline_text(queue)
  if queue.rest + queue.slow_until == 0 then return '' end
  return format(' %d %d %d', queue.rest, queue.slow_until, queue.slow_pace)
end

-- What a limiter has to remember of the queue: the position and the newest slot,
-- as the state has them, then, in the server's time,
-- ' <newest slot> <end> <pause's end>', how long it is until these ends, and up to
-- which slot all counts as full. The end is given in the server's time.
local function position_of(queue, line, newest, ends)
  return line .. format(' %d %d %d %d %d %d', in_server_time(queue, newest), ends,
    queue.rest > 0 and server + queue.rest or 0, ends - server, queue.rest, queue.lost)
end

-- Writes the queue. Returns its position, whether it is plain, and the server's
-- error if there is one.
local function write(queue)
  local _, natural, newest = bounds(queue)
  local kept = settle_notes(queue, natural)
  if queue.offset <= -2 ^ 52 then damaged() end
  local plain = not queue[2] and queue[1].idle == 0 and queue.offset == 0 and queue.rest + queue.slow_until == 0
    and kept + queue.lost + queue.reset_end + queue.mixed == 0 and not string.find(queue.word, ',', 1, true)
  local lines = {}
  if plain then
    newest = queue[1].last
    lines[1] = table.concat({ 'fair4 ', queue.word, ' - ', window_text(queue, queue[1]) })
  else
    lines[1] = table.concat({ 'fair4 ', queue.word, format(' + %d %d %d %d %d %d',
      #queue, queue.offset, kept, queue.lost, queue.reset_end, queue.mixed), timeline_text(queue), '\n' })
    for i, window in ipairs(queue) do
      lines[i + 1] = format('%d %d %d ', window.length, window.idle, window.last) .. window_text(queue, window)
    end
  end
  if queue.flows_end <= queue.now then
    queue.flows_end = 0
  else
    lines[#lines + 1] = format('flows %d %s\n', queue.flows_end, queue.flows)
  end
  if queue.epochs ~= '' then lines[#lines + 1] = table.concat({ 'epochs', queue.epochs, '\n' }) end
  local line = format('%s %s %16d %16d %16d', queue.generation, queue.epoch, queue.sequence, queue.now, newest)
  lines[#lines + 1] = table.concat({ queue.place, ' ', line })
  local ends = in_server_time(queue, queue.ends)
  local life = format('%d', math.ceil((ends - server + math.max(0, queue.flows_end - queue.ends)) / 1000) + 1)
  local reply = redis.pcall('PSETEX', key, life, table.concat(lines))
  if reply.err then return nil, plain, redis.error_reply(reply.err) end
  return position_of(queue, line, newest, ends), plain
end
