-- A script of the version before queues could be paused, as that version sent it.
local key, head, seen = KEYS[1], ARGV[1], ARGV[2]
local call, sub, format = redis.call, string.sub, string.format
local SILENCE = 100000
local MOST_LINES = 3075
local state = call('GET', key)
local left = state and call('PTTL', key)
local time = call('TIME')
local server = time[1] * 1000000 + time[2]
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local match = string.match
if left == -1 then return redis.error_reply('STATE the key has no TTL') end
if left == -2 then state = false end -- it has ended meanwhile
local function damaged()
  error('STATE not the state of a queue, or that of another version, or damaged', 0)
end
local function number(text)
  local n = tonumber(text)
  if not n or n >= 2 ^ 52 then damaged() end
  return n
end
local function new_window(length)
  return {
    length = length, most = 0, last = 0, room = 0, base = 0, origin = 0, mode = '.',
    bound = 0, until_slot = 0, moments = 0,
    text = '', at = 1, stored = 0, text_last = 0, text_total = 0, slot_digits = 0, total_digits = 0, closed = {},
    period = length, cells = 64, laps = 64, idle = 0
  }
end
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
  local size = width > 0 and count * width or floor((first + count - 1) / 4) - floor(first / 4) + 1
  if first <= -2 ^ 52 or count == 0 or width > 12 or histogram.level > 52 or size ~= #histogram.text
    or histogram.period == 0 or histogram.cells == 0 or histogram.laps == 0 then
    damaged()
  end
  return histogram, finish
end
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
local function read()
  local word = sub(head, 7, -4)
  local queue = {
    generation = sub(ARGV[3], 1, 8), sequence = 0, clock = 0, word = word, offset = 0, ends = 0, lost = 0,
    reset_end = 0, mixed = 0, silences = '', interval = 0, burst = 1, spacing = 0, asked = 0
  }
  if not state then return queue end
  if #state > 16 * 4096 then damaged() end
  local generation, sequence, clock, newest = match(sub(state, -60), '^\n(%w+) +(%d+) +(%d+) +(%d+)$')
  local kind, at
  queue.word, kind, at = match(state, '^fair3 (%S+) ([-+]) ()')
  if not kind or not generation or #generation ~= 8 then damaged() end
  queue.generation, queue.sequence = generation, number(sequence)
  queue.clock = number(clock)
  if kind == '-' then
    local length = match(queue.word, '^%d+/(%d+)$')
    queue[1], at = read_window(at, length, 0, newest, queue.sequence)
  else
    local count, offset, ends, lost, reset_end, mixed, from =
      match(state, '^(%d+) (%d+) (%d+) (%d+) (%d+) ([01])\n()', at)
    at = from
    queue.offset, queue.ends = number(offset), number(ends)
    queue.lost, queue.reset_end = number(lost), number(reset_end)
    queue.mixed = number(mixed)
    for i = 1, min(number(count), 99) do
      local length, idle, last, body = match(state, '^(%d+) (%d+) (%d+) ()', at)
      queue[i], at = read_window(body, length, idle, last, queue.sequence)
    end
    if #queue ~= number(count) then damaged() end
  end
  if at ~= #state - 58 then
    queue.silences, at = match(state, '^silent ([%d ]+)\n()', at)
    if at ~= #state - 58 then damaged() end
  end
  return queue
end
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
local function has_room(queue)
  return ARGV[9] and not ARGV[10] and not queue[2] and queue.sequence + ARGV[7] * math.abs(ARGV[9]) <= queue[1].room
end
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
local MOST_WINDOWS = 16
local forget_pace, adopt, compact_full
local function windows_of(word)
  local windows, period = {}, 0
  for most, length, grid in string.gmatch(word, '(%d+)/(%d+)([/%d]*)') do
    local cells, laps = match(grid, '^/(%d+)/?(%d*)$')
    cells = cells and number(cells) or min(64, number(length)) -- none is finer than a microsecond
    laps = laps and laps ~= '' and number(laps) or cells
    windows[#windows + 1] = { most = number(most), length = number(length), cells = cells, laps = laps }
    if cells == 0 or laps == 0 then damaged() end
    period = max(period, length + 0)
  end
  for _, window in ipairs(windows) do
    if window.cells > period or window.laps > period then damaged() end
    window.period = period
  end
  return windows
end
local function set_pace(queue, windows)
  local pace, short = nil, floor(windows[1].period / 64)
  for _, window in ipairs(windows) do
    local better = not pace or window.length < pace.length
    if pace and window.length <= short and pace.length <= short then
      local rate, least = window.most / window.length, pace.most / pace.length
      if rate < least * 0.999 then better = true elseif least < rate * 0.999 then better = false end
    end
    if better then pace = window end
  end
  queue.interval, queue.burst, queue.spacing = pace.length, pace.most, pace.most == 1 and pace.length or 0
end
local function closest(queue, length)
  local best
  for _, window in ipairs(queue) do
    local enough, best_enough = window.length >= length, best and best.length >= length
    if not best or enough and (not best_enough or window.length < best.length)
      or not enough and not best_enough and window.length > best.length then
      best = window
    end
  end
  return best
end
local function copy_of(table)
  local copy = {}
  for field, value in pairs(table or {}) do copy[field] = value end
  return table and copy
end
local function line_up(queue, windows)
  local lined, taken, others, noted, now = {}, {}, {}, false, queue.now
  for i, asked in ipairs(windows) do
    local window = closest(queue, asked.length) or new_window(asked.length)
    if window.length == asked.length then
      taken[window] = true
      noted = noted or window.idle > 0 and window.idle + window.length <= now
    else
      window, noted = copy_of(window), true
      window.length, window.closed, window.mode, window.unwritten, window.copied = asked.length, {}, '.', true, true
      window.behind = copy_of(window.behind)
    end
    window.most, window.idle, window.room = asked.most, 0, 0
    window.period, window.cells, window.laps = asked.period, asked.cells, asked.laps
    lined[i] = window
  end
  for _, window in ipairs(queue) do
    if not taken[window] and (window.idle == 0 or window.idle + 3 * window.length > now) then
      if window.idle == 0 then window.idle = now end
      others[#others + 1] = window
    end
  end
  table.sort(others, function(a, b) return a.length > b.length end)
  for i = 1, max(#queue, MOST_WINDOWS) do
    queue[i] = lined[i] or i <= MOST_WINDOWS and others[i - #lined] or nil
  end
  queue.asked = #lined
  return noted
end
local function is_empty(queue)
  for _, window in ipairs(queue) do
    if window.last > 0 then return false end
  end
  return true
end
local function keep_windows(queue, windows)
  for i, asked in ipairs(windows) do
    local window = queue[i]
    if window.length ~= asked.length then damaged() end
    window.most, window.period, window.cells, window.laps = asked.most, asked.period, asked.cells, asked.laps
  end
  queue.asked = #windows
end
local function select_windows(queue, returns)
  if format('%d', 2 ^ 53) ~= '9007199254740992' then error('STATE this server counts with 32 bits', 0) end
  local word, noted = sub(head, 7, -4), false
  local known = windows_of(queue.word)
  if #known == 0 or queue[1] and #queue < #known then damaged() end
  if queue.mixed == 0 then set_pace(queue, known) end
  if queue[1] then
    local _, natural = bounds(queue)
    queue.ends = max(queue.ends, natural)
  end
  if returns and queue[1] or word == queue.word and #queue == #known then
    keep_windows(queue, known)
  else
    noted = line_up(queue, windows_of(word))
  end
  for _, window in ipairs(queue) do
    if returns or not has_room(queue) then drop_passed(queue, window) end
  end
  local tail = max(queue.now, (bounds(queue)))
  for _, window in ipairs(queue) do
    if window.copied then adopt(queue, window, tail) end
  end
  if returns then return noted end
  local interval, burst = queue.interval, queue.burst
  set_pace(queue, windows_of(word))
  if is_empty(queue) then
    queue.mixed = 0
  elseif queue.interval ~= interval or queue.burst ~= burst then
    queue.interval, queue.burst, queue.spacing = interval, burst, burst == 1 and interval or 0
    forget_pace(queue, tail)
    compact_full(queue, tail)
  end
  queue.word = word
  return noted
end
local function scale(a, b, c)
  if a * b < 2 ^ 53 then
    local rest = a * b % c
    return (a * b - rest) / c, rest
  end
  local unit, whole, rest = 1, 0, 0
  while unit * 8 <= b do unit = unit * 8 end
  while unit >= 1 do -- long division, a digit of b in base 8 at a time
    rest = rest * 8 + a * (floor(b / unit) % 8)
    whole, rest, unit = whole * 8 + floor(rest / c), rest % c, unit / 8
  end
  return whole, rest
end
local function scale_up(a, b, c)
  local whole, rest = scale(a, b, c)
  return rest > 0 and whole + 1 or whole
end
local function cell_at(grid, slot)
  local period, cells, laps, since = grid.period, grid.cells, grid.laps, slot - (grid.from or 0)
  local phase = since % period
  local cell = (scale(phase, laps, period))
  if laps ~= cells then cell = (scale(cell, cells, laps)) end
  return (since - phase) / period * cells + cell
end
local function start_of(grid, cell)
  local period, cells, laps = grid.period, grid.cells, grid.laps
  local share = cell % cells
  local lap = laps == cells and share or scale_up(share, laps, cells)
  return (grid.from or 0) + (cell - share) / cells * period + scale_up(lap, period, laps)
end
local function bound_of(grid, slot)
  return start_of(grid, cell_at(grid, slot) + 1)
end
local HEX = '0123456789abcdef'
local function bucket_at(histogram, slot)
  return floor(cell_at(histogram, slot) / 2 ^ histogram.level)
end
local function end_of(histogram, bucket)
  return start_of(histogram, (bucket + 1) * 2 ^ histogram.level) - 1
end
local function hex_at(histogram, bucket)
  return floor(bucket / 4) - floor(histogram.first / 4) + 1
end
local function permits_in(histogram, bucket)
  local text, width = histogram.text, histogram.width
  if width > 0 then
    local at = (bucket - histogram.first) * width
    return tonumber(sub(text, at + 1, at + width))
  end
  local at = hex_at(histogram, bucket)
  return floor(tonumber(sub(text, at, at), 16) / 2 ^ (bucket % 4)) % 2
end
local function counts_of(histogram, more)
  local counts, text, width, count = {}, histogram.text, histogram.width, histogram.count
  if width > 0 then
    for i = 1, count do counts[i] = tonumber(sub(text, (i - 1) * width + 1, i * width)) end
  elseif count > 0 then
    local skipped = histogram.first % 4 -- in the first digit
    local digit = floor(tonumber(sub(text, 1, 1), 16) / 2 ^ skipped)
    for i = 1, count do
      local at = skipped + i - 1
      if at % 4 == 0 then digit = tonumber(sub(text, at / 4 + 1, at / 4 + 1), 16) end
      counts[i] = digit % 2
      digit = floor(digit / 2)
    end
  end
  for i = 1, #more do counts[count + i] = more[i] end
  return counts
end
local function text_of(counts, bucket, width)
  local pieces, cells, digit = {}, {}, 0
  for i, permits in ipairs(counts) do
    local bit = (bucket + i - 1) % 4
    digit = digit + permits * 2 ^ bit
    if width > 0 then
      cells[#cells + 1] = sub(format('%12d', permits), -width)
    elseif bit == 3 or i == #counts then
      cells[#cells + 1] = sub(HEX, digit + 1, digit + 1)
      digit = 0
    end
    if #cells == 256 or i == #counts then
      pieces[#pieces + 1] = table.concat(cells)
      cells = {}
    end
  end
  return table.concat(pieces)
end
local function width_for(most) return most <= 1 and 0 or #format('%d', most) end
local function largest(counts)
  local most = 0
  for i = 1, #counts do if counts[i] > most then most = counts[i] end end
  return most
end
local function newest_bucket(histogram, upto)
  local text, width, first = histogram.text, histogram.width, histogram.first
  if width > 0 then
    text = sub(text, 1, (upto - first + 1) * width)
    local zeros = string.find(string.reverse(text), '[1-9]')
    return zeros and upto - floor((zeros - 1) / width)
  end
  local bucket = upto
  while bucket >= first and permits_in(histogram, bucket) == 0 do
    if bucket % 4 == 3 then
      local zeros = string.find(string.reverse(sub(text, 1, hex_at(histogram, bucket))), '[^0]')
      if not zeros then return nil end
      bucket = bucket - (zeros - 1) * 4
      if permits_in(histogram, bucket) > 0 then return bucket end
    end
    bucket = bucket - 1
  end
  return bucket >= first and bucket or nil
end
local function oldest_bucket(histogram, from)
  if from >= histogram.first + histogram.count then return nil end
  local text, width, first = histogram.text, histogram.width, histogram.first
  if width > 0 then
    local at = string.find(text, '[1-9]', (from - first) * width + 1)
    return at and first + floor((at - 1) / width)
  end
  local at = string.find(text, '[^0]', hex_at(histogram, from))
  local last = first + histogram.count - 1
  local bucket = at and max(from, (at - 1 + floor(first / 4)) * 4) or last + 1
  while bucket <= last and permits_in(histogram, bucket) == 0 do bucket = bucket + 1 end
  return bucket <= last and bucket or nil
end
local function drop_back(histogram, newest)
  histogram.count = newest - histogram.first + 1
  local text, width = histogram.text, histogram.width
  if width > 0 then
    histogram.text = sub(text, 1, histogram.count * width)
  else
    local at = hex_at(histogram, newest)
    local digit = tonumber(sub(text, at, at), 16) % 2 ^ (newest % 4 + 1)
    histogram.text = sub(text, 1, at - 1) .. sub(HEX, digit + 1, digit + 1)
  end
end
local function drop_front(histogram, first)
  local text, width = histogram.text, histogram.width
  if width > 0 then
    histogram.text = sub(text, (first - histogram.first) * width + 1)
  else
    local at, unit = hex_at(histogram, first), 2 ^ (first % 4)
    local digit = floor(tonumber(sub(text, at, at), 16) / unit) * unit
    histogram.text = sub(HEX, digit + 1, digit + 1) .. sub(text, at + 1)
  end
  histogram.first, histogram.count = first, histogram.count - first + histogram.first
end
local function append(histogram, more)
  if #more == 0 then return end
  local width, bucket, list = width_for(largest(more)), histogram.first + histogram.count, {}
  if histogram.count == 0 then
    histogram.width, histogram.text = max(width, histogram.width), ''
  elseif width > histogram.width then
    list = counts_of(histogram, more)
    more, bucket = list, histogram.first
    histogram.width, histogram.text, histogram.count = width, '', 0
  elseif histogram.width == 0 and bucket % 4 > 0 then -- the last digit has room
    local kept = min(bucket % 4, histogram.count)
    for i = 1, kept do list[i] = permits_in(histogram, bucket - kept + i - 1) end
    for i = 1, #more do list[kept + i] = more[i] end
    histogram.text, histogram.count = sub(histogram.text, 1, -2), histogram.count - kept
    more, bucket = list, bucket - kept
  end
  local cells = text_of(more, bucket, histogram.width)
  histogram.text, histogram.count = histogram.text .. cells, histogram.count + #more
end
local function set_counts(histogram, first, counts)
  histogram.first, histogram.count, histogram.width, histogram.text = first, 0, 0, ''
  append(histogram, counts)
end
local function take_out(histogram, bucket, permits)
  local held, text, width = permits_in(histogram, bucket), histogram.text, histogram.width
  if held < permits then return false end
  if width > 0 then
    local at = (bucket - histogram.first) * width
    local cell = sub(format('%12d', held - permits), -width)
    histogram.text = table.concat({ sub(text, 1, at), cell, sub(text, at + width + 1) })
  else
    local at = hex_at(histogram, bucket)
    local digit = tonumber(sub(text, at, at), 16) - permits * 2 ^ (bucket % 4)
    histogram.text = table.concat({ sub(text, 1, at - 1), sub(HEX, digit + 1, digit + 1), sub(text, at + 1) })
  end
  return true
end
local MOST_MOMENTS = 130
local SPARE_CELLS = 30
local MOST_CELLS = MOST_MOMENTS + SPARE_CELLS
local MOST_STATE = 3500
local MOST_BYTES = MOST_STATE - 500
local MOST_BUCKETS = 512
local MOST_BITS = 4 * MOST_BYTES
local function open_log(queue, window)
  local slots, counts, before, total = {}, {}, 0, window.base
  for i = 1, count_cells(window) + (window.last > 0 and 1 or 0) do
    local slot, upto = window.last, queue.sequence
    if i <= count_cells(window) then slot, upto = slot_of(window, i), total_of(window, i) end
    if upto <= total or slot < before then damaged() end
    slots[i], counts[i] = slot, upto - total
    before, total = slot, upto
  end
  window.slots, window.counts = slots, counts
end
local function close_log(queue, window)
  local slots, counts, closed, total = window.slots, window.counts, {}, queue.sequence
  local newest = #slots
  window.last = slots[newest] or 0
  for i = newest, 1, -1 do
    if i < newest then closed[2 * i - 1], closed[2 * i] = slots[i], total end
    total = total - counts[i]
  end
  window.base, window.stored, window.closed, window.unwritten, window.slots = total, 0, closed, true, nil
  window.room, window.bound = 0, 0
  if newest == 0 then
    window.mode = '.'
  elseif window.mode == 'c' then
    window.bound = min(bound_of(window, window.last), window.until_slot)
  end
  if window.behind and window.behind.count == 0 then window.behind, window.origin = nil, 0 end
end
local function cell_digits(queue, window, last, oldest, base)
  return #format('%d', min(2 ^ 52, 2 * max(window.length, last - oldest))),
    #format('%d', 2 * max(500, queue.sequence - base))
end
local function is_over(queue, window, cells, last, oldest, base)
  local histogram, bytes = window.behind, 0
  if histogram then
    bytes = histogram.width > 0 and histogram.count * histogram.width or ceil(histogram.count / 4)
    if histogram.width > 0 and histogram.count > MOST_BUCKETS then return true end
  end
  local slot_digits, total_digits = cell_digits(queue, window, last, oldest, base)
  return bytes + cells * (slot_digits + total_digits) > MOST_BYTES
end
local function is_wide_enough(queue, window)
  local count, added = count_cells(window), #window.closed
  if count == 0 then return true end
  local span, held = window.last - slot_of(window, 1), queue.sequence - window.base
  if added > 0 then span = span + window.length end
  return span < 10 ^ window.slot_digits and held < 10 ^ window.total_digits
end
local function behind_text(histogram)
  if not histogram then return '' end
  return format('behind %d %d %d %d %d %d %d %d:', histogram.from, histogram.period, histogram.cells, histogram.laps,
    histogram.level, histogram.first, histogram.count, histogram.width) .. format('%s\n', histogram.text)
end
local function coarsen(histogram)
  local counts, joined, odd = counts_of(histogram, {}), {}, histogram.first % 2
  if odd == 1 then joined[1] = counts[1] end
  for i = 1 + odd, #counts, 2 do joined[#joined + 1] = counts[i] + (counts[i + 1] or 0) end
  histogram.level = histogram.level + 1
  set_counts(histogram, floor(histogram.first / 2), joined)
end
local function new_histogram(window, slot)
  local histogram = { level = 0, first = 0, count = 0, width = 0, text = '' }
  if window.most == 1 then
    histogram.from, histogram.period, histogram.cells, histogram.laps = slot + 1, window.length, 1, 1
  else
    histogram.from, histogram.period, histogram.cells, histogram.laps = 0, window.period, window.cells, window.laps
  end
  return histogram
end
local function add_permits(histogram, more, bucket, permits)
  if histogram.count + #more == 0 then histogram.first = bucket end
  local at = bucket - histogram.first - histogram.count + 1
  if at < 1 and #more == 0 then
    local newest = histogram.first + histogram.count - 1
    more[1] = permits_in(histogram, newest)
    if histogram.count > 1 then drop_back(histogram, newest - 1) else histogram.count, histogram.text = 0, '' end
  end
  for i = #more + 1, at do more[i] = 0 end
  more[#more] = more[#more] + permits
end
local function flush(histogram, more)
  append(histogram, more)
  for i = #more, 1, -1 do more[i] = nil end
end
local function add_run(histogram, permits)
  local width, one = histogram.width, {}
  if width > 0 then
    histogram.text = histogram.text .. string.rep(sub(format('%12d', 1), -width), permits)
    histogram.count = histogram.count + permits
    return
  end
  for i = 1, min(permits, -(histogram.first + histogram.count) % 4) do one[i] = 1 end
  permits = permits - #one
  flush(histogram, one)
  local whole = floor(permits / 4)
  histogram.text, histogram.count = histogram.text .. string.rep('f', whole), histogram.count + 4 * whole
  for i = 1, permits - 4 * whole do one[i] = 1 end
  append(histogram, one)
end
local function make_room(histogram, more, first, slot, interval)
  local oldest = histogram.count + #more > 0 and histogram.first or bucket_at(histogram, first)
  if bucket_at(histogram, slot) - oldest < MOST_BUCKETS then return end
  flush(histogram, more)
  histogram.first = oldest
  while true do
    local single = histogram.width == 0
      and (first == slot or histogram.level == 0 and histogram.cells == 1 and histogram.period <= interval)
    if bucket_at(histogram, slot) - histogram.first < (single and MOST_BITS or MOST_BUCKETS) then return end
    coarsen(histogram)
  end
end
local function spread(queue, window, more, slot, permits)
  local histogram, interval, length = window.behind, queue.spacing, window.length
  if not histogram or histogram.count + #more == 0 then
    histogram = new_histogram(window, slot)
    window.behind = histogram
  elseif window.most == 1 then
    local late = (slot + 1 - histogram.from) % length
    if late <= floor(length / 64) then histogram.from = histogram.from + late end
  end
  local first = interval > 0 and slot - (permits - 1) * interval or slot
  local passed = queue.now - length - first
  if interval > 0 and passed > 0 then first = first + ceil(passed / interval) * interval end
  if first > slot then return end
  if interval == 0 then
    local bucket = bucket_at(histogram, slot)
    if histogram.count + #more > 0 and bucket - histogram.first >= MOST_BUCKETS then
      make_room(histogram, more, slot, slot, 0)
      bucket = bucket_at(histogram, slot)
    end
    return add_permits(histogram, more, bucket, permits)
  end
  make_room(histogram, more, first, slot, interval)
  while first <= slot do
    local bucket = bucket_at(histogram, first)
    local here = max(1, floor((min(slot, end_of(histogram, bucket)) - first) / interval) + 1)
    add_permits(histogram, more, bucket, here)
    first = first + here * interval
    local rest = (slot - first) / interval + 1
    if rest > 8 and histogram.level == 0 and histogram.cells == 1 and histogram.period == interval
      and bucket + 1 == histogram.first + histogram.count + #more then
      flush(histogram, more)
      return add_run(histogram, rest)
    end
  end
end
local function trim(window, passed)
  local histogram = window.behind
  if not histogram then return end
  local newest = histogram.count > 0 and newest_bucket(histogram, histogram.first + histogram.count - 1)
  local oldest = max(histogram.first, bucket_at(histogram, passed + 1))
  oldest = newest and oldest <= newest and oldest_bucket(histogram, oldest)
  if not oldest then
    window.behind = nil
    return
  end
  drop_back(histogram, newest)
  if oldest > histogram.first then drop_front(histogram, oldest) end
end
local function fold(queue, window, tail)
  local slots, counts, length, gone, more = window.slots, window.counts, window.length, 0, {}
  while slots[gone + 1] and slots[gone + 1] + length <= tail do
    gone = gone + 1
    spread(queue, window, more, slots[gone], counts[gone])
  end
  if gone > 0 then
    flush(window.behind, more)
    window.origin = slots[gone]
    for i = 1, #slots do slots[i], counts[i] = slots[gone + i], counts[gone + i] end
  end
  trim(window, queue.now - length)
end
local function unfold(window, tail)
  local histogram, slots, counts = window.behind, {}, {}
  if not histogram then return end
  local bucket, lowest = histogram.first + histogram.count - 1, histogram.first
  local newest = newest_bucket(histogram, bucket)
  while bucket >= lowest do
    local slot = newest and min(end_of(histogram, newest), newest < bucket and math.huge or window.origin)
    if newest ~= bucket then window.origin = end_of(histogram, newest or lowest - 1) end
    bucket = newest or lowest - 1
    if not newest or (window.slots[1] or slots[1]) and slot + window.length <= tail then break end
    table.insert(slots, 1, slot)
    table.insert(counts, 1, permits_in(histogram, bucket))
    bucket = bucket - 1
    window.origin = end_of(histogram, bucket)
    newest = bucket >= lowest and newest_bucket(histogram, bucket) or nil
  end
  for i = 1, #window.slots do slots[#slots + 1], counts[#counts + 1] = window.slots[i], window.counts[i] end
  window.slots, window.counts = slots, counts
  if bucket < lowest then
    window.behind, window.origin = nil, 0 -- nothing is left there, and new cells may be earlier
  else
    drop_back(histogram, bucket)
  end
end
local function merge(window)
  local slots, counts, kept, share = window.slots, window.counts, 0, nil
  for i = 1, #slots do
    local own = cell_at(window, slots[i])
    if own == share then
      slots[kept], counts[kept] = slots[i], counts[kept] + counts[i]
    else
      kept, share = kept + 1, own
      slots[kept], counts[kept] = slots[i], counts[i]
    end
  end
  for i = kept + 1, #slots do slots[i], counts[i] = nil, nil end
end
local function base_of(queue, window)
  local total = queue.sequence
  for _, permits in ipairs(window.counts) do total = total - permits end
  return total
end
local function make_narrow(queue, window, cells, last, oldest, base)
  cells = cells > 0 and min(MOST_CELLS, cells + SPARE_CELLS) or 0
  while window.behind and window.behind.count > 1 and is_over(queue, window, cells, last, oldest, base) do
    coarsen(window.behind)
  end
end
local function compact(queue, window, tail)
  fold(queue, window, tail)
  local slots, is_crowded = window.slots, window.mode == 'c' and window.until_slot > tail
  if #slots > MOST_MOMENTS or is_crowded then
    merge(window)
    if not is_crowded then window.mode, window.until_slot, window.moments = 'c', tail + window.length, 0 end
  end
  make_narrow(queue, window, #slots, slots[#slots] or 0, slots[1] or 0, base_of(queue, window))
end
local function compact_text(queue, window, tail)
  local length, gone, more = window.length, 0, {}
  if window.mode == 'c' and window.until_slot > tail or window.last + length <= tail then return false end
  while gone < window.stored and slot_of(window, gone + 1) + length <= tail do gone = gone + 1 end
  if count_cells(window) + 1 - gone > MOST_MOMENTS then return false end
  if gone == window.stored and window.closed[1] and window.closed[1] + length <= tail then return false end
  local base = window.base
  for i = 1, gone do
    local total = total_of(window, i)
    spread(queue, window, more, slot_of(window, i), total - base)
    base, window.origin = total, slot_of(window, i)
  end
  if gone > 0 then flush(window.behind, more) end
  window.at = window.at + gone * (window.slot_digits + window.total_digits)
  window.base, window.stored = base, window.stored - gone
  trim(window, queue.now - length)
  local cells = count_cells(window)
  make_narrow(queue, window, cells + 1, window.last, cells > 0 and slot_of(window, 1) or window.last, base)
  return true
end
local function compact_open(queue, window, tail)
  local slots = window.slots
  local last, oldest = slots[#slots] or 0, slots[1] or 0
  if #slots > MOST_CELLS or is_over(queue, window, #slots, last, oldest, base_of(queue, window)) then
    compact(queue, window, tail)
  end
  close_log(queue, window)
end
local function is_full(queue, window)
  if not window.grew then return false end
  local closed = count_cells(window)
  if closed + 1 > MOST_CELLS and window.last > 0 then return true end
  if window.slot_digits > 0 and not window.unwritten and is_wide_enough(queue, window) then
    return closed * (window.slot_digits + window.total_digits) + #behind_text(window.behind) > MOST_LINES
  end
  local cells, oldest = window.last > 0 and closed + 1 or 0, closed > 0 and slot_of(window, 1) or window.last
  return is_over(queue, window, cells, window.last, oldest, window.base)
end
function compact_full(queue, tail)
  for _, window in ipairs(queue) do
    if is_full(queue, window) and not compact_text(queue, window, tail) then
      open_log(queue, window)
      compact(queue, window, tail)
      close_log(queue, window)
    end
  end
end
local function drop_passed_of_row(queue, window)
  local spacing, slots, counts = queue.spacing, window.slots, window.counts
  if spacing == 0 or #slots == 0 then return end
  local first = slots[1] - (counts[1] - 1) * spacing
  local passed = floor((queue.now - window.length - first) / spacing) + 1
  if passed > 0 then
    counts[1], window.origin, window.behind = counts[1] - passed, first + (passed - 1) * spacing, nil
  end
end
local function open_rows(queue, window, tail)
  local spacing, slots, counts = queue.spacing, window.slots, window.counts
  drop_passed_of_row(queue, window)
  local permits = queue.sequence - base_of(queue, window)
  if spacing == 0 or permits == #slots then return end
  local opened, sizes, more, many = {}, {}, {}, permits > MOST_CELLS
  for i = 1, #slots do
    local rest, first = counts[i], slots[i] - (counts[i] - 1) * spacing
    local behind = tail - window.length - first
    if many and behind >= 0 then
      local folded = min(rest, floor(behind / spacing) + 1)
      first, rest = first + folded * spacing, rest - folded
      spread(queue, window, more, first - spacing, folded)
      window.origin = first - spacing
    end
    while rest > 0 do
      local here = 1
      if many then here = min(rest, floor((bound_of(window, first) - 1 - first) / spacing) + 1) end
      first, rest = first + here * spacing, rest - here
      opened[#opened + 1], sizes[#sizes + 1] = first - spacing, here
    end
  end
  if window.behind then
    flush(window.behind, more)
    if window.behind.count == 0 then window.behind = nil end
  end
  window.slots, window.counts = opened, sizes
end
function forget_pace(queue, tail)
  for _, window in ipairs(queue) do
    drop_passed(queue, window)
    open_log(queue, window)
    open_rows(queue, window, tail)
    close_log(queue, window)
    window.grew = true
  end
  queue.interval, queue.burst, queue.spacing, queue.mixed = 0, 1, 0, 1
end
local MOST_ADOPTED = 256
function adopt(queue, window, tail)
  local histogram = window.behind
  if not histogram then return end
  while histogram.count > MOST_ADOPTED do coarsen(histogram) end
  open_log(queue, window)
  unfold(window, tail)
  compact_open(queue, window, tail)
end
local function extends(queue, window, slot, permits)
  local last = window.last
  if window.mode == 'c' then
    window.moments = window.moments + 1
    if slot < window.until_slot then
      if last <= queue.now and slot < window.bound then return true end
    elseif window.moments > MOST_MOMENTS + 1 then
      window.until_slot, window.moments = slot + window.length, 1
    else
      window.mode, window.grew = '.', true
      return false
    end
    window.bound, window.grew = min(bound_of(window, slot), window.until_slot), true
    return false
  end
  window.grew = true
  return permits == 1 and queue.spacing > 0 and slot == last + queue.spacing
end
local function add(queue, window, slot, permits)
  local last = window.last
  if last > 0 and last < slot and not extends(queue, window, slot, permits) then
    drop_passed(queue, window)
    if window.most > 1 then window.room = max(window.room, window.base + window.most) end
    local closed = window.closed
    if window.last > 0 then closed[#closed + 1], closed[#closed + 2] = last, queue.sequence end
  end
  if last < slot then window.last = slot end
end
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
local function begin(queue, returns)
  local touched = false
  queue.now = server + queue.offset
  if queue.now < queue.clock then -- the server's clock has gone back: carry on
    queue.now, queue.offset, touched = queue.clock, queue.clock - server, true
  end
  touched = select_windows(queue, returns) or touched
  return touched, recover(queue)
end
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
local function give_back(window, slot, permits, gone)
  local slots, counts, histogram = window.slots, window.counts, window.behind
  if slot <= gone then return end
  if slot <= window.origin and histogram and histogram.count > 0 then
    local bucket = max(histogram.first, bucket_at(histogram, slot))
    while bucket and bucket < histogram.first + histogram.count do
      if take_out(histogram, bucket, permits) then return end
      bucket = oldest_bucket(histogram, bucket + 1)
    end
  end
  local low, high = 1, #slots + 1
  while low < high do
    local middle = floor((low + high) / 2)
    if slots[middle] >= slot then high = middle else low = middle + 1 end
  end
  while counts[low] and counts[low] < permits do low = low + 1 end
  if not counts[low] then return end
  counts[low] = counts[low] - permits
  if counts[low] == 0 then
    table.remove(slots, low)
    table.remove(counts, low)
  end
end
local function still_held(queue)
  local held = {}
  for i = 4, #ARGV, 5 do
    local slot, permits, granted = ARGV[i + 1] + 0, ARGV[i + 2] + 0, ARGV[i + 3] + 0
    if ARGV[i] == queue.generation and (slot > queue.now or ARGV[i + 4] == '1') and not was_silent(queue, granted) then
      held[#held + 1] = { slot = slot, permits = permits }
    end
  end
  return held
end
local function pull_forward(window, newest)
  local slots, counts, permits, n = window.slots, window.counts, 0, #window.slots
  newest = max(newest, window.origin)
  while n > 0 and slots[n] > newest do
    permits = permits + counts[n]
    slots[n], counts[n] = nil, nil
    n = n - 1
  end
  if permits > 0 and n > 0 and slots[n] == newest then
    counts[n] = counts[n] + permits
  elseif permits > 0 then
    slots[n + 1], counts[n + 1] = newest, permits
  end
end
if not state and seen == '' then return 0 end
local queue = read()
local noted, lost = begin(queue, true)
local held = still_held(queue)
if #held > 0 then
  local tail, newest, upto = max(queue.now, (bounds(queue))), nil, math.huge
  for _, window in ipairs(queue) do
    open_log(queue, window)
    open_rows(queue, window, tail)
    local gone = max(queue.now - window.length, window.behind and 0 or window.origin)
    for _, turn in ipairs(held) do give_back(window, turn.slot, turn.permits, gone) end
    unfold(window, math.huge)
    local last = window.slots[#window.slots] or 0
    newest, upto = min(newest or last, last), min(upto, last > 0 and last or queue.now - window.length)
  end
  tail = max(queue.now, newest)
  for _, window in ipairs(queue) do
    pull_forward(window, upto)
    unfold(window, tail)
    compact_open(queue, window, tail)
  end
end
if #held > 0 or noted or lost then
  local _, _, problem = write(queue)
  if problem then return problem end
end
return #held
