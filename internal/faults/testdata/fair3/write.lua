local function after_what_was_lost(queue, tail)
  if queue.lost == 0 then return tail end
  for i = 1, queue.asked do tail = max(tail, queue.lost + queue[i].length) end
  return tail
end
local function rewrite(queue, window)
  local closed, count = {}, count_cells(window)
  for i = 1, count do
    closed[2 * i - 1], closed[2 * i] = slot_of(window, i), total_of(window, i)
  end
  window.closed, window.stored, window.unwritten = closed, 0, false
  local oldest = closed[1] or window.last
  window.slot_digits, window.total_digits = cell_digits(queue, window, window.last, oldest, window.base)
end
local function digit(n)
  return string.char(n < 10 and n + 48 or n + 87)
end
local function window_text(queue, window)
  if window.unwritten or window.slot_digits == 0 or not is_wide_enough(queue, window) then rewrite(queue, window) end
  local slot_digits, total_digits, closed = window.slot_digits, window.total_digits, window.closed
  local kind, cells = '.', {}
  if window.mode == 'c' then
    kind = format('c %16d %16d %3d', window.bound, window.until_slot, min(131, window.moments))
  elseif not queue[2] and queue.spacing > 0 and window.last > 0 then
    kind = 'r'
  end
  if #closed > 0 then
    for i = 1, #closed / 2 do
      local cell = sub(format('%16d', closed[2 * i - 1]), -slot_digits)
      cells[i] = cell .. sub(format('%16d', closed[2 * i]), -total_digits)
    end
  end
  local room = queue[2] and 0 or min(window.room, window.base + 10 ^ window.total_digits - 1)
  local line = format('%16d %16d %16d ', room, window.base, window.origin) .. digit(slot_digits) .. digit(total_digits)
  local kept = sub(window.text, window.at, window.at + window.stored * (slot_digits + total_digits) - 1)
  return table.concat({ line, ' ', kind, ':', kept, table.concat(cells), '\n', behind_text(window.behind) })
end
local function settle_notes(queue, natural)
  local now = queue.now
  if natural <= now then queue.lost = 0 end
  if queue.reset_end + queue.offset <= now then queue.reset_end = 0 end
  if queue.reset_end > 0 then natural = max(natural, queue.reset_end + queue.offset) end
  if queue.ends <= natural then
    queue.ends = natural
    return 0
  end
  return queue.ends
end
local function write(queue)
  local _, natural, newest = bounds(queue)
  note_silence(queue)
  local kept = settle_notes(queue, natural)
  local plain = not queue[2] and queue[1].idle == 0
    and kept + queue.offset + queue.lost + queue.reset_end + queue.mixed == 0
    and not string.find(queue.word, ',', 1, true)
  local lines = {}
  if plain then
    newest = queue[1].last
    lines[1] = table.concat({ 'fair3 ', queue.word, ' - ', window_text(queue, queue[1]) })
  else
    lines[1] = table.concat({ 'fair3 ', queue.word, format(' + %d %d %d %d %d %d\n',
      #queue, queue.offset, kept, queue.lost, queue.reset_end, queue.mixed) })
    for i, window in ipairs(queue) do
      lines[i + 1] = format('%d %d %d ', window.length, window.idle, window.last) .. window_text(queue, window)
    end
  end
  local bytes = 60
  for _, line in ipairs(lines) do bytes = bytes + #line end
  while queue.silences ~= '' and bytes + #queue.silences + 8 > MOST_STATE * #queue do forget_silence(queue) end
  if queue.silences ~= '' then lines[#lines + 1] = table.concat({ 'silent ', queue.silences, '\n' }) end
  lines[#lines + 1] = format('%s %16d %16d %16d', queue.generation, queue.sequence, queue.now, newest)
  local life = format('%d', ceil((queue.ends - queue.now) / 1000) + 1)
  local reply = redis.pcall('PSETEX', key, life, table.concat(lines))
  if reply.err then return nil, plain, redis.error_reply(reply.err) end
  local told = format('%s %16d %16d %16d %d %d',
    queue.generation, queue.sequence, queue.now, newest, queue.ends, queue.offset)
  return told, plain
end
