local MOST_SILENCES = 8
local function add_missing(queue, missing, newest)
  local tail = max(queue.now, (bounds(queue)))
  if queue.interval > 0 then forget_pace(queue, tail) end -- they may be those of callers who keep another
  local passed = {}
  for i, window in ipairs(queue) do
    passed[i] = newest + window.length <= queue.now
    if passed[i] then open_log(queue, window) else add(queue, window, max(newest, window.last), missing) end
  end
  queue.sequence = queue.sequence + missing
  for i, window in ipairs(queue) do
    if passed[i] then close_log(queue, window) end
    window.room = 0
  end
  compact_full(queue, max(tail, newest))
end
local function recover(queue)
  if seen == '' then return false end
  local generation, sequence, clock = match(seen, '^(%w+) +(%d+) +(%d+)$')
  local newest, ends = match(ARGV[3], '^%w+ (%d+) (%d+)$')
  local known = generation == queue.generation
  local missing, written = sequence - queue.sequence, queue.clock
  newest, ends, clock = newest + queue.offset, ends + 0, clock + 0
  if ends <= server or known and missing <= 0 and clock <= written then return false end
  if not known and (ends <= queue.reset_end or newest <= queue.lost) then return false end
  if known and missing > 0 and missing < 1000000000 and written <= clock then
    add_missing(queue, missing, newest)
    queue.clock = clock
    return true
  end
  queue.lost = max(queue.lost, newest)
  if known or written <= clock then
    queue.generation, queue.silences = sub(ARGV[3], 1, 8), ''
  end
  return true
end
local function forget_silence(queue)
  local silences, shortest = {}, nil
  for ended, lasted in string.gmatch(queue.silences, '(%d+) (%d+)') do
    silences[#silences + 1] = format('%d %d', ended, lasted)
    if not shortest or lasted + 0 < shortest then shortest, silences.least = lasted + 0, #silences end
  end
  table.remove(silences, silences.least)
  queue.silences = table.concat(silences, ' ')
end
local function note_silence(queue)
  if queue.clock == 0 or queue.now - queue.clock < SILENCE then return end
  queue.silences = match(format('%s %d %d', queue.silences, queue.now, queue.now - queue.clock), '^ ?(.*)$')
  local _, count = string.gsub(queue.silences, '%d+ %d+', '')
  if count > MOST_SILENCES then forget_silence(queue) end
end
local function was_silent(queue, moment)
  if moment > queue.clock then return true end
  for ended, lasted in string.gmatch(queue.silences, '(%d+) (%d+)') do
    if moment < ended + 0 and moment > ended - lasted then return true end
  end
  return false
end
