-- Names the logs: that of calls, and those of further units, which lie in a key
-- of their own. The parts behind work on the log whose fields are set.
--
-- KEYS             the units' logs are among them: '<queue>:units'
-- ARGV[first]      how many units
-- ARGV[first + 1]  of which history the sequences are that the caller knows,
--                  '<generation> <epoch>', '' if it knows of none
-- then for each: name, up to which sequence and which slot the caller knows of it,
--          how many windows, and these as in head.lua
--
-- Takes    what open.lua leaves
-- Leaves   logs: [0] is that of calls, [1] to [count] those of the units, each
--          with the fields of the header that it has for itself; at: which one
--          is set; asked_from, behind the arguments of the units; layout: the
--          blocks of the key, in their order; epochs_of: of the key, the
--          generation, the epoch, and the one before; go_to, leave_log, tail_of,
--          ask_log, kept_of, owes_of, read_units, lay_out, units_header;
--          again, which says whether a part in brackets runs once more; UNIT,
--          TAG, BLOCK
--
-- Of one unit there are a line of fields and those of its windows, as in the
-- header of the queue, and behind all of these a block: its ring, and the debts
-- that lie ahead. Ended is up to where the sequence was when the epoch began.

local TAGS, TAG, UNIT = 40, 28, 134
local BLOCK = CELLS * WIDTH + TAGS * TAG
local units_key, count = key .. ':units', argv[first] + 0
local logs, at, again, layout, epochs_of = { [0] = { key = key, dirty = false } }, 0, nil, {}, nil
local knows_of_units = argv[first + 1]
first = first + 2
for i = 1, count do
  local some = argv[first + 3] + 0
  local own = { '', '', '', 0, some }
  for w = 1, 3 * some do own[5 + w] = argv[first + 3 + w] end
  local words = {}
  local none = ''
  for w = 6, 5 + 3 * some, 3 do
    words[#words + 1] = format('%s/%s/%s', own[w], own[w + 1], own[w + 2])
    none = format('%s%16d %4d\n', none, own[w], 0)
  end
  asked_units[i] = format('%s:%s', argv[first], table.concat(words, ','))
  logs[i] = {
    key = units_key, name = argv[first], words = table.concat(words, ','), knows = argv[first + 1] + 0,
    newest = argv[first + 2] + 0,
    argv = own, windows_end = 5 + 3 * some,
    size = 0, sequence = 0, last = 0, crowded = 0, coarse = 0, span = 0, base = 0, ended = 0, closed = 0,
    oldest = 0, tags = 0, marks = none, dirty = false,
  }
  first = first + 4 + 3 * some
end

-- Keeps the fields of the log that is set.
local function leave_log()
  local l = logs[at]
  l.key, l.size, l.argv, l.windows, l.windows_end = key, size, argv, windows, windows_end
  l.sequence, l.last, l.crowded, l.coarse, l.span = sequence, last, crowded, coarse, span
  l.closed, l.oldest, l.base, l.marks = closed, oldest, base, marks
end

-- Sets another log. The parts behind ask it by arguments from first on.
local function go_to(i)
  leave_log()
  local l = logs[i]
  at, key, size, argv, windows, windows_end = i, l.key, l.size, l.argv, l.windows, l.windows_end
  sequence, last, crowded, coarse, span = l.sequence, l.last, l.crowded, l.coarse, l.span
  closed, oldest, base, marks = l.closed, l.oldest, l.base, l.marks
  first, log = windows_end + 1, nil
  for used = #argv, first, -1 do argv[used] = nil end
end

-- The newest slot of all logs but the first so many, those of units that the
-- caller does not have included.
local function tail_of(from)
  leave_log()
  local newest = 0
  for i = from, count do newest = math.max(newest, logs[i].last) end
  for _, block in ipairs(layout) do newest = math.max(newest, block.last or 0) end
  return newest
end

-- Has grant.lua ask a log for so many turns of so many permits.
local function ask_log(i, permits, longest, so_many)
  go_to(i)
  argv[first], argv[first + 1], argv[first + 2], argv[first + 3] = 0, permits, longest, so_many
  return true
end

-- For how long a permit of a log counts.
local function kept_of(l)
  local longest = l.argv[7] + 0
  return l.coarse > now and l.span > longest and l.span or longest
end

-- The debts of a unit that lie ahead: each a slot, and how much.
local function owes_of(l)
  if not l.owes then
    l.owes = {}
    local from = l.size + CELLS * WIDTH
    local text = l.tags > 0 and call('GETRANGE', units_key, from, from + l.tags * TAG - 1)
    for slot, permits in string.gmatch(text or '', '(%d+) +(%d+)\n') do
      l.owes[#l.owes + 1] = { slot + 0, permits + 0 }
    end
  end
  return l.owes
end

-- What the caller asks, behind all that.
asked_from = first
argv, first = { unpack(argv, 1, windows_end) }, windows_end + 1

-- Reads the header of whatever units the key has, and finds those of the caller.
-- Returns whether all of them are there, under the same windows; nil if it is
-- damaged.
local function read_units()
  local header = call('GETRANGE', units_key, '0', '1023')
  if #header == 1024 and not match(header, '\n.*\n') then header = call('GETRANGE', units_key, '0', '8191') end
  local words, generation, epoch, before, from = match(header, '^units1( [^\n]*)\n(%w+) (%w+) ([%w-]+)\n()')
  layout, epochs_of = {}, nil
  if header ~= '' and not words then return nil end
  if not words or generation ~= sub(name, 1, 8) then return true end -- of a queue that is over
  local _, blocks = string.gsub(words, ':', '')
  local _, commas = string.gsub(words, ',', '')
  local starts = from - 1 + blocks * UNIT + (blocks + commas) * 22
  if starts > #header then header = call('GETRANGE', units_key, '0', format('%d', starts - 1)) end
  if #header < starts then return nil end
  for unit, windows_word in string.gmatch(words, ' ([%w_-]+):([%d/,]+)') do
    local _, more = string.gsub(windows_word, ',', '')
    local block = { name = unit, words = windows_word, size = starts }
    block.raw = sub(header, from, from + UNIT + 22 * more + 21)
    block.last = sub(block.raw, 18, 33) + 0 -- of a unit of others: see tail_of
    from, starts = from + #block.raw, starts + BLOCK
    layout[#layout + 1], layout[unit] = block, block
  end
  epochs_of = { epoch, before }
  local same = epoch == sub(name, 10, 17)
  for i = 1, count do
    local l = logs[i]
    local block = layout[l.name]
    if block then
      local a, b, c, d, e, f, g, h, o, t = match(sub(block.raw, 1, UNIT),
        '^ *(%d+) +(%d+) +(%d+) +(%d+) +(%d+) +(%d+) +(%d+) +(%d+) +(%d+) +(%d+)\n$')
      if not t then return nil end
      l.sequence, l.last, l.crowded, l.coarse, l.span, l.base = a + 0, b + 0, c + 0, d + 0, e + 0, f + 0
      l.ended, l.closed, l.oldest, l.tags, l.marks = g + 0, h + 0, o + 0, t + 0, sub(block.raw, UNIT + 1)
      if l.closed < l.oldest or l.closed - l.oldest > CELLS or l.base > l.sequence or l.sequence >= MOST_SLOT then
        return nil
      end
      l.size, block.log, block.last = block.size, i, nil
    end
    same = same and block ~= nil and block.words == l.words
  end
  return same
end

-- Puts the caller's units into the layout, in front of those of others, and says
-- where each block lies from now on.
local function lay_out()
  local blocks, starts = {}, #'units1\n' + 27
  for i = 1, count do
    local l = logs[i]
    blocks[i] = layout[l.name] or { name = l.name }
    blocks[i].words, blocks[i].log = blocks[i].words or l.words, i
  end
  for _, block in ipairs(layout) do
    if not block.log then blocks[#blocks + 1] = block end
  end
  for _, block in ipairs(blocks) do
    local _, commas = string.gsub(block.words, ',', '')
    starts = starts + #block.name + #block.words + 2 + UNIT + 22 * (commas + 1)
  end
  for i, block in ipairs(blocks) do
    block.size = starts + (i - 1) * BLOCK
    if block.log then logs[block.log].size = block.size end
  end
  layout = blocks
end

-- The header of the units' key.
local function units_header()
  leave_log()
  local words, lines = { 'units1' }, { '\n', sub(name, 1, 17), ' ', epochs_of and epochs_of[2] or '--------', '\n' }
  for _, block in ipairs(layout) do
    words[#words + 1] = format(' %s:%s', block.name, block.words)
    local l = block.log and logs[block.log]
    lines[#lines + 1] = l and format('%16d %16d %16d %16d %16d %16d %16d %4d %4d %4d\n', l.sequence, l.last,
      l.crowded, l.coarse, l.span, l.base, l.ended, l.closed, l.oldest, l.tags) .. l.marks or block.raw
  end
  return table.concat(words) .. table.concat(lines)
end

if count > 0 and not unusual then
  local same = read_units()
  local here = knows_of_units == sub(name, 1, 17)
  for i = 1, count do same = same and (logs[i].knows == 0 or here and logs[i].knows <= logs[i].sequence) end
  unusual = not same
  if same and #layout == 0 then lay_out() end
end
