-- Reads what a state tells of the queue as a whole: in its first line, behind
-- the windows, and in its last.
--
-- Takes    what head.lua leaves
-- Leaves   match; damaged, number, read_notes

local match = string.match

-- The word of a queue that was begun by somebody without windows: any that is
-- over at once will do.
local NO_WINDOWS = '1/1'

local function damaged()
  error('STATE not the state of a queue, or that of another version, or damaged', 0)
end

-- A number of the state. It is checked for size, so that sums stay exact.
local function number(text)
  local n = tonumber(text)
  if not n or n >= 2 ^ 52 then damaged() end
  return n
end

-- A queue that is new, or that a text with the first line and one with the last
-- tell of. It has the fields of the state under their names, but no windows and
-- no epochs that have ended. Also returns the place behind the first line or, in
-- a plain state, behind its mark; the newest slot; how many windows there are, 0
-- in a plain state.
local function read_notes(first, last)
  local word = sub(head, 7, -4)
  local queue = {
    generation = sub(ARGV[3], 1, 8), epoch = '', place = '', sequence = 0, clock = 0,
    word = word ~= '' and word or NO_WINDOWS,
    offset = 0, ends = 0, lost = 0, reset_end = 0, mixed = 0, rest = 0, late = 0, slow_until = 0, slow_pace = 0,
    epochs = '', flows = '', flows_end = 0, interval = 0, burst = 1, spacing = 0, asked = 0
  }
  if not first then
    queue.epoch, queue.place = replication() or queue.generation, this_server()
    return queue
  end
  local place, generation, epoch, sequence, clock, newest =
    match(last, '^\n(%w+) (%w+) (%w+) +(%d+) +(%d+) +(%d+)$')
  local kind, at
  queue.word, kind, at = match(first, '^fair4 (%S+) ([-+]) ()')
  if not kind or not generation or #generation ~= 8 or #epoch ~= 8 then damaged() end
  queue.place, queue.generation, queue.epoch = place, generation, epoch
  queue.sequence, queue.clock = number(sequence), number(clock)
  if kind == '-' then return queue, at, newest, 0 end
  local count, offset, ends, lost, reset_end, mixed, more, behind =
    match(first, '^(%d+) (%-?%d+) (%d+) (%d+) (%d+) ([01])([%d ]*)\n()', at)
  queue.offset, queue.ends = number(offset), number(ends)
  queue.lost, queue.reset_end, queue.mixed = number(lost), number(reset_end), number(mixed)
  if more ~= '' then
    local rest, slow_until, slow_pace = match(more, '^ (%d+) (%d+) (%d+)$')
    queue.rest, queue.slow_until, queue.slow_pace = number(rest), number(slow_until), number(slow_pace)
    if queue.slow_until > 0 and queue.slow_pace < 1000000 then damaged() end
  end
  if number(count) == 0 or queue.offset <= -2 ^ 52 then damaged() end
  return queue, behind, newest, number(count)
end
