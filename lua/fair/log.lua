-- Reads the state, and the window logs in it cell by cell.
--
-- Takes    what open.lua and clock.lua leave
-- Leaves   new_window, read, slot_of, total_of, count_cells, drop_passed,
--          has_room, bounds
--
-- A queue is a table: what notes.lua reads, now, flows (their text) and
-- flows_end, and its windows, the caller's first. A window is a table: last,
-- room, base, origin, mode, bound, until_slot, moments, idle and its digits as
-- written; length, most (0 unless the caller is held to it); its closed cells:
-- stored of them in the text from place at on, and behind them those that this
-- run closes, in closed: slot, total, slot, total and so on. What is not among
-- the cells ends with the slot origin and the total base: it has left the
-- window, or is in the histogram, behind. A window that holds nothing has a last
-- of 0.

if left == -1 then return redis.error_reply('STATE the key has no TTL') end
if left == -2 then state = false end -- it has ended meanwhile

local function new_window(length)
  return {
    length = length, most = 0, last = 0, room = 0, base = 0, origin = 0, mode = '.',
    bound = 0, until_slot = 0, moments = 0,
    text = '', at = 1, stored = 0, text_last = 0, text_total = 0, slot_digits = 0, total_digits = 0, closed = {},
    period = length, cells = 64, laps = 64, idle = 0
  }
end

-- Reads the histogram behind a window that ends at the place, if there is one.
local function read_behind(at)
  if sub(state, at + 1, at + 7) ~= 'behind ' then return nil, at end
  local from, period, cells, laps, level, first, count, width, text =
    match(state, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%-?%d+) (%d+) (%d+):()', at + 8)
  local finish = text and string.find(state, '\n', text, true)
  if not finish then damaged() end
  local histogram = {
    from = number(from), period = number(period), cells = number(cells), laps = number(laps), level = number(level),
    first = number(first), count = number(count), width = number(width), text = sub(state, text, finish - 1)
  }
  first, count, width = histogram.first, histogram.count, histogram.width
  local size = width > 0 and count * width or math.floor((first + count - 1) / 4) - math.floor(first / 4) + 1
  if first <= -2 ^ 52 or count == 0 or width > 12 or histogram.level > 52 or size ~= #histogram.text
    or histogram.period == 0 or histogram.cells == 0 or histogram.laps == 0 then
    damaged()
  end
  return histogram, finish
end

-- Reads one window at the place and returns it and the place behind it.
local function read_window(at, length, idle, last, sequence)
  local room, base, origin, slot_digits, total_digits, mode, more, cells =
    match(state, '^ *(%d+) +(%d+) +(%d+) (%w)(%w) ([.rc])([%d ]*):()', at)
  local finish = cells and string.find(state, '\n', cells, true)
  if not finish then damaged() end
  local window = new_window(number(length))
  window.idle, window.last, window.mode = number(idle), number(last), mode
  window.room, window.base, window.origin = number(room), number(base), number(origin)
  window.slot_digits, window.total_digits = tonumber(slot_digits, 36), tonumber(total_digits, 36)
  if mode == 'c' then
    local bound, until_slot, moments = match(more, '^ +(%d+) +(%d+) +(%d+)$')
    window.bound, window.until_slot, window.moments = number(bound), number(until_slot), number(moments)
  end
  local size = window.slot_digits + window.total_digits
  window.text, window.at, window.stored = state, cells, (finish - cells) / size
  window.text_last, window.text_total = window.last, sequence
  if window.base > sequence or window.slot_digits > 16 or window.total_digits > 12 or window.length == 0
    or window.stored % 1 > 0 or window.stored > 0 and window.base == sequence then
    damaged()
  end
  if window.base == sequence then window.last, window.mode = 0, '.' end
  window.behind, finish = read_behind(finish)
  return window, finish + 1
end

-- The queue that the state tells of, or one that is new if there is none.
local function read()
  if not state then return read_notes() end
  if #state > 16 * 4096 then damaged() end
  local queue, at, newest, count = read_notes(state, sub(state, -77))
  if count == 0 then
    local length = match(queue.word, '^%d+/(%d+)$')
    queue[1], at = read_window(at, length, 0, newest, queue.sequence)
  end
  for i = 1, math.min(count, 99) do
    local length, idle, last, body = match(state, '^(%d+) (%d+) (%d+) ()', at)
    queue[i], at = read_window(body, length, idle, last, queue.sequence)
  end
  if #queue ~= math.max(1, count) then damaged() end
  if at ~= #state - 75 and sub(state, at, at + 5) == 'flows ' then
    local ends
    ends, queue.flows, at = match(state, '^flows (%d+) ([%w/ ]+)\n()', at)
    queue.flows_end = number(ends)
  end
  if at ~= #state - 75 then
    queue.epochs, at = match(state, '^epochs( [-%w @]+)\n()', at)
    local rest = queue.epochs and string.gsub(queue.epochs, ' %w+ %d+ %d+@?%d*', '')
    if at ~= #state - 75 or rest ~= '' and rest ~= ' -' then damaged() end
  end
  return queue
end

-- The i-th closed cell. The text has the last digits of its slot and of its
-- total, as far back as needed from the newest slot and the sequence with
-- which it was written.
local function slot_of(window, i)
  local stored, last = window.stored, window.text_last
  if i > stored then return window.closed[2 * (i - stored) - 1] end
  local digits = window.slot_digits
  local at = window.at + (i - 1) * (digits + window.total_digits)
  return last - (last - tonumber(sub(window.text, at, at + digits - 1))) % 10 ^ digits
end

local function total_of(window, i)
  local stored, total = window.stored, window.text_total
  if i > stored then return window.closed[2 * (i - stored)] end
  local digits = window.total_digits
  local at = window.at + i * (window.slot_digits + digits)
  return total - (total - tonumber(sub(window.text, at - digits, at - 1))) % 10 ^ digits
end

local function count_cells(window)
  return window.stored + #window.closed / 2
end

-- Moves what has left the window from its cells into its base. What stands
-- further back than these has left it as well.
local function drop_passed(queue, window)
  local now, length, last = queue.now, window.length, window.last
  if last > 0 and last + length <= now then
    window.base, window.origin, window.last, window.stored, window.closed = queue.sequence, last, 0, 0, {}
    window.mode, window.behind = '.', nil
    return
  end
  local gone = 0
  while gone < window.stored and slot_of(window, gone + 1) + length <= now do gone = gone + 1 end
  if gone > 0 then
    window.base, window.origin, window.behind = total_of(window, gone), slot_of(window, gone), nil
    window.at, window.stored = window.at + gone * (window.slot_digits + window.total_digits), window.stored - gone
  end
end

-- Whether what this run asks for first has room in the one window, at its
-- newest slot or now. As long as it has, nothing needs to be dropped.
local function has_room(queue)
  return ARGV[9] and not ARGV[10] and not queue[2] and queue.sequence + ARGV[7] * math.abs(ARGV[9]) <= queue[1].room
end

-- FIFO's tail, 0 if nothing is held ahead: the last slot of each window is at
-- or after the newest slot held, so the smallest of them is the tightest.
-- Then when nothing that is held or lost counts any more, and the newest slot
-- that may count.
local function bounds(queue)
  local tail, natural, newest, lost = queue[1].last, queue.now, queue.lost, queue.lost
  for i = 1, #queue do
    local last, length = queue[i].last, queue[i].length
    if last < tail then tail = last end
    if last > newest then newest = last end
    if last < lost then last = lost end
    if last > 0 and last + length > natural then natural = last + length end
  end
  return tail, natural, newest
end
