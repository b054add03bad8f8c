-- Reads the state of any windows, and what is noted in it.
--
-- Takes    what open.lua leaves
-- Leaves   the fields of the header; state (the header and some more, '' if there
--          is none); windows; own (its place), moment (when it was written: the
--          server's time and the offset); slow, paced, reset_end, full,
--          in_use, epochs, as noted; rest, late, healed, differs, changed_text;
--          damaged, number, is_nobodys, windows_of, read_stretches, as_arguments, span_of, counts_for
--
-- Notes stand behind the ring while there are any:
--
--   moment     of the clock, see clock.lua
--   reset_end  up to when the queue is known to have been reset, in the server's
--              time
--   full       up to this slot all counts as full, after a loss
--   paced      up to this sequence turns stand in a stretch
--   slow       the stretches of the clock, see narrow.lua
--   in_use     the windows of different callers, see windows.lua
--   epochs     those that have ended, see epochs.lua
--
-- The mark is '+' while the clock does not run as the server's does, else 'n'
-- if there are notes, else '-'.

local function damaged()
  error('STATE not the state of a queue, or that of another version, or damaged', 0)
end

-- A number of the state. Slots are below 2^52. An end lies later, and so does a
-- slot that a pause or a narrower quota puts off.
local function number(value)
  local n = tonumber(value)
  if not n or not (n < 2 ^ 53) or n <= -2 ^ 53 then damaged() end
  return n
end

unusual = true
local slow, paced, reset_end, full, moment, in_use, epochs = {}, 0, 0, 0, 0, '-', ''
local rest, late, healed, differs, changed_text, own = 0, 0, false, false, false, nil
local state = text or ''
if left ~= -2 and not (p > 0 and sub(state, 1, p) == head) then -- of other windows
  state = redis.pcall('GETRANGE', key, '0', '767')
end
if type(state) == 'table' then return redis.error_reply(state.err) end
if left == -1 then return redis.error_reply('STATE the key has no TTL') end
fresh = left == -2

local function windows_of(words)
  local all = {}
  for most, length, cells in string.gmatch(words, '(%d+)/(%d+)/(%d+)') do
    all[#all + 1] = { most = number(most), length = number(length), cells = number(cells) }
    if all[#all].length == 0 or all[#all].most == 0 or all[#all].cells == 0 then damaged() end
  end
  return all
end

-- The stretches of a text '<upto>:<pace>:<windows>|...', '-' if there are none.
local function read_stretches(words)
  local all, before = {}, 0
  for word in string.gmatch(words, '[^|]+') do
    local upto, pace, under = match(word, '^(%d+):(%d+):(:[%d/,]+[%w_:/,;-]*)$')
    if upto then
      all[#all + 1] = { upto = number(upto), pace = number(pace), under = under }
      if all[#all].upto <= before or all[#all].pace < 1000000 then damaged() end
      before = all[#all].upto
    elseif words ~= '-' then
      damaged()
    end
  end
  return all
end

local function read_header()
  local word, stored, at, generation, epoch, upto
  word, stored, at = match(state, '^fair5 ([%d/,]*) (%S+)\n()')
  if not word or #stored ~= 8 then damaged() end
  head, p = sub(state, 1, at - 1), at - 1
  mark, flag, own, generation, epoch, sequence, clock, last, upto =
    match(state, '^([-n+])([ fFM])(.......) (%w+) (%w+) +(%d+) +(%d+) +(%d+)\n()', at)
  if not mark or #generation ~= 8 or #epoch ~= 8 or upto ~= at + 79 then damaged() end
  name, sequence, clock, last = generation .. ' ' .. epoch .. ' ', number(sequence), number(clock), number(last)
  offset, ends, crowded, coarse, span, closed, oldest, base, at =
    match(state, '^ *(%-?%d+) +(%d+) +(%d+) +(%d+) +(%d+) +(%d+) +(%d+) +(%d+)\n()', upto)
  if not offset or at ~= upto + 112 then damaged() end
  offset, ends, crowded, coarse = number(offset), number(ends), number(crowded), number(coarse)
  span, closed, oldest, base = number(span), number(closed), number(oldest), number(base)
  if closed < oldest or closed - oldest > CELLS or oldest >= CELLS or base > sequence then damaged() end
  windows = windows_of(word)
end

-- Whether a caller without windows has begun the queue: then its windows are
-- nobody's, and no turn was granted on them.
local function is_nobodys() return match(head, '%S+\n$') == '........\n' end

if not fresh then
  read_header()
  size, moment = p + 191 + 22 * #windows, clock
  marks = sub(state, p + 192, size)
  if #string.gsub(marks, ' *%d+ +%d+\n', '') > 0 or #marks ~= 22 * #windows then damaged() end
  for i, window in ipairs(windows) do
    if sub(marks, 22 * i - 21, 22 * i - 6) - window.most > sequence then damaged() end
  end
  local ring_end = size + math.min(closed, CELLS) * WIDTH - 1
  if call('GETRANGE', key, ring_end, ring_end) == '' then damaged() end
  if mark ~= '-' then
    local noted = call('GETRANGE', key, size + CELLS * WIDTH, size + CELLS * WIDTH + NOTES - 1)
    moment, reset_end, full, paced, slow, in_use, epochs =
      match(noted, '^ *(%d+) +(%d+) +(%d+) +(%d+) (%S+) ([-%d/,|]+)([-%w @]*)\n')
    if not moment then damaged() end
    moment, reset_end, full, paced = number(moment), number(reset_end), number(full), number(paced)
    if mark == 'n' then moment = clock end -- the usual way writes the clock alone
    slow = read_stretches(slow)
  end
else
  if head == '' then -- any windows that are over at once will do
    head = 'fair5 1/1/1 ........\n'
    p, size = #head, #head + 191 + 22
  end
  name, windows = sub(argv[3], 1, 8) .. ' ', windows_of(head)
  for _, window in ipairs(windows) do marks = format('%s%16d %4d\n', marks, window.most, 0) end
end

-- Lets the windows be those of the arguments, for parts that go by these.
as_arguments = function(...)
  argv, first = { '', '', '', 0, #windows }, 6
  for _, window in ipairs(windows) do
    argv[first], argv[first + 1], argv[first + 2], first = window.most, window.length, window.cells, first + 3
  end
  for i, value in ipairs({ ... }) do argv[first + i - 1] = value end
  windows_end = first - 1
end

-- By how much earlier than the end of its cell a permit stands at least that so
-- many others follow.
span_of = function(permits)
  local length = 0
  for _, window in ipairs(windows) do
    local times = floor(permits / window.most)
    length, permits = length + times * window.length, permits - times * window.most
  end
  return length
end

-- For how long a permit counts.
counts_for = function()
  local length = windows[1] and windows[1].length or 1
  return coarse > now and span > length and span or length
end
