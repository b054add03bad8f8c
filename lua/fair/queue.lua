-- The reservation queue: grants turns, gives them back, reports. The TTL of its key is the backlog.
--
-- KEYS[1]  the queue
-- ARGV[1]  'take', 'back', 'status' or 'reset'
-- ARGV[2]  the generation to give a queue that is new: a word never used before
-- ARGV[3]  what the caller was told last of this queue: <generation> <sequence> <clock>, '' if nothing
-- ARGV[4]  and in the same answer: <newest slot> <end>
-- ARGV[5]  the windows that the caller is held to: <most permits>/<length>,<most permits>/<length>...
-- then     take: for each run of requests for equally many permits: how many permits, longest wait, how many requests; negative where that is the
--                longest wait of the first only, and those behind it may wait longer
--          back: for each grant: generation, slot, permits, 1 if nobody has used them else 0
--
-- Returns  take: { generation, sequence, newest slot, end, offset, now, then for each run of answers: wait, how many (negative: refused), how much
--                longer each waits than the one before }, at least one, in the order of the requests; those left unanswered are for the next call;
--                a sequence of 0 says that nothing was written
--          back: how many were given back, the others having passed or gone
--          status: { permits to be had now, permits queued, wait for one more }
--          reset: 1
-- Errors   STATE: the key holds something else. FULL: the queue holds more permits than it can count. Either way nothing was changed.
--
-- Times and lengths are microseconds, integers below 2^53. They are on the queue's clock: the server's plus an offset, which grows when the server's
-- goes back. Only what ARGV[4] tells, and <forgiven>, are on the server's. What is written is only ever PSETEX, and only when something changed.
--
-- The state is text:
--
--   fair2 <generation> <sequence> <clock> <windows> <how many lines>[ <offset> <ends> <lost> <forgiven> <blind>]
--   <last> <total> <length> <origin> <digits> <digits>[ <idle> <coarse> <moments> <sealed>]:<cell><cell>...      a line for each window, a track
--
-- The sequence counts the permits granted in this generation. It was written at the clock, last by a caller held to these windows. What stands in
-- brackets is left out while all of it is 0. The key ends when the newest slot has left the longest window, or at <ends> if turns were given back:
-- it never ends sooner than somebody was told, so that a key that is missing before that was lost. What was lost, up to the slot <lost>, counts
-- as full. Who was told an end up to <forgiven> has lost nothing: the queue was reset.
--
-- A cell is a slot, after the origin, and the running total of the permits granted up to it, in so many digits. It stands for the permits since
-- the cell before, all counted at its slot, the last of theirs; that is the safe side. The first cell is the last that has left the window, a
-- whole length behind the clock; the newest is not among the cells but <last> and <total>, 0 and the first cell's if it has left as well. A
-- track is idle since its last caller gave way to callers held to others. It is coarse, until that slot, when more than 130 moments fell into
-- one length: then those within one 64th share a cell, and the moments of this length are counted; sealed says that the newest cell takes no more.
--
-- Callers held to these windows never let more than a crowd of permits stand within a pitch: a window's most and length. Unless the queue is blind,
-- as it is once callers held to others came to it, that tells by when each permit of a cell has come: a crowd before the last, a pitch before the
-- cell's slot; two crowds before it, two pitches.

-- A function costs each run about 0.1 µs for being there, and so does each local of the script that functions use. So there are few of both, what
-- functions need is passed to them, and what few runs need is made when it is needed, by rarely.
--
-- The queue is a table: generation, sequence, windows, offset, ends, lost, forgiven and blind as written; now; pitch and crowd, and spacing, which
-- is how far every permit is from the next, 0 if not known; and its tracks, the asked of them that the caller is held to first.
--
-- A track is a table: last, total, length, origin, slot_digits and, if they are written, idle, coarse, moments, sealed; shape (length to digits, as
-- text); size (digits of a cell); from and base (slot and total of the first cell); its other closed cells, stored of them in the text, from the
-- place at on, and behind them those that this run closes: slot, total, slot, total...; and most, if the caller is held to it.

local rarely

local function slot_of(track, i)
  local stored = track.stored
  if i > stored then return track.closed[2 * (i - stored) - 1] end
  local at = track.at + (i - 1) * track.size
  return track.origin + tonumber(string.sub(track.text, at, at + track.slot_digits - 1))
end

local function total_of(track, i)
  local stored = track.stored
  if i > stored then return track.closed[2 * (i - stored)] end
  local at = track.at + i * track.size
  return tonumber(string.sub(track.text, at - track.size + track.slot_digits, at - 1))
end

-- Returns what the state says, a queue that is new if there is none, or nothing if it is not a queue's.
local function read_queue(state)
  local match, sub = string.match, string.sub
  local generation, sequence, clock, windows, count, notes, at = ARGV[2], 0, 0, ARGV[5], 0, '', 1
  if state then
    generation, sequence, clock, windows, count, notes, at = match(state, '^fair2 (%w+) (%d+) (%d+) (%S+) (%d+)([^\n]*)\n()')
    if not generation or #state > 16 * 4096 then return end
  end
  local queue = {
    generation = generation, sequence = sequence + 0, windows = windows, now = clock + 0, offset = 0, ends = 0, lost = 0, forgiven = 0, blind = 0,
    pitch = 0, crowd = 1, spacing = 0, asked = 0
  }
  if not state then return queue end
  if queue.now >= 2 ^ 52 or queue.sequence >= 2 ^ 53 or notes ~= '' and not rarely(queue).read_notes(notes) then return end
  while at <= #state do
    local last, total, shape, length, origin, slot_digits, total_digits, more, cells =
      match(state, '^(%d+) (%d+) (([1-9]%d*) (%d+) ([1-9]%d*) ([1-9]%d*))([^:\n]*):()', at)
    at = cells and string.find(state, '\n', cells, true)
    if not at then return end
    last, length, origin, slot_digits = last + 0, length + 0, origin + 0, slot_digits + 0
    local size = slot_digits + total_digits
    local track = {
      last = last, total = total + 0, length = length, origin = origin, slot_digits = slot_digits, size = size, shape = shape, text = state,
      at = cells + size, stored = (at - cells) / size - 1, from = origin + tonumber(sub(state, cells, cells + slot_digits - 1)),
      base = tonumber(sub(state, cells + slot_digits, cells + size - 1)), closed = {}, most = 0
    }
    if size > 26 or track.stored < 0 or track.stored % 1 > 0 or length + last + origin >= 2 ^ 53 then return end
    if more ~= '' then
      local idle, coarse, moments, sealed = match(more, '^ (%d+) (%d+) (%d+) ([01])$')
      if not idle or idle + coarse + moments >= 2 ^ 53 then return end
      track.idle, track.coarse, track.moments = idle ~= '0' and idle + 0 or nil, coarse ~= '0' and coarse + 0 or nil, moments + 0
      track.sealed = sealed == '1' or nil
    end
    queue[#queue + 1] = track
    at = at + 1
  end
  return queue[count + 0] and not queue[count + 1] and queue
end

-- The first cell becomes the last that has left the window.
local function drop_passed(track, now)
  local gone, length, last = 0, track.length, track.last
  while gone < track.stored and slot_of(track, gone + 1) + length <= now do gone = gone + 1 end
  if gone > 0 then
    track.from, track.base = slot_of(track, gone), total_of(track, gone)
    track.at, track.stored = track.at + gone * track.size, track.stored - gone
  end
  if track.stored == 0 and last > 0 and last + length <= now then
    track.from, track.base, track.last, track.shape = last, track.total, 0, false
  end
end

-- Returns FIFO's tail, 0 if nothing is held ahead: every track's last cell stands at or after the newest slot still held, so the smallest of them is
-- the tightest; when nothing of what is held, or lost, counts any more; and the newest slot that may count.
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

-- The moment by which the running total reaches need, which it does.
local function slot_reaching(queue, track, need)
  local slot, total, low, high = track.last, track.total, 1, track.stored + #track.closed / 2
  if total == need then return slot end
  if high > 0 and total_of(track, high) >= need then
    while low < high do
      local middle = math.floor((low + high) / 2)
      if total_of(track, middle) >= need then high = middle else low = middle + 1 end
    end
    slot, total = slot_of(track, low), total_of(track, low)
  end
  return slot - math.floor((total - need) / queue.crowd) * queue.pitch
end

-- The earliest moment from the tail on at which every window has room for the permits.
local function earliest(queue, tail, permits)
  local slot = tail
  for i = 1, queue.asked do
    local track = queue[i]
    local need = track.total + permits - track.most
    local free = need > track.base and slot_reaching(queue, track, need) + track.length or 0
    if free > slot then slot = free end
  end
  return slot
end

-- Whether the newest cell can stand for a permit at a later slot as well: in a coarse track for all of a 64th, once its own slot has come so that
-- nobody gives it back, else where it stays a row of single permits one spacing apart.
local function extends(track, slot, permits, spacing, now)
  local coarse, length, last = track.coarse, track.length, track.last
  if coarse and slot < coarse then
    track.moments = track.moments + 1
    return last <= now and not track.sealed and math.floor(last * 64 / length) == math.floor(slot * 64 / length)
  elseif coarse then
    track.coarse, track.moments = track.moments > 130 and slot + length or nil, 1
    return false
  end
  if spacing == 0 or permits > 1 or slot ~= last + spacing then return false end
  local count, from, base = track.stored + #track.closed / 2, track.from, track.base
  if count > 0 then from, base = slot_of(track, count), total_of(track, count) end
  return last - from == (track.total - base) * spacing
end

-- Returns the reply, or an error, and whether anything was granted.
local function take(queue)
  local now, spacing = queue.now, queue.spacing
  local reply, size, granted, tail, turns = { queue.generation, 0, 0, 0, queue.offset, now, 0, 0, 0 }, 6, false, bounds(queue), 0
  if tail < now then tail = now end
  if queue.lost > 0 then tail = rarely(queue).after_what_was_lost(tail) end
  for i = 6, #ARGV, 3 do
    local permits, longest, count = ARGV[i] + 0, ARGV[i + 1] + 0, ARGV[i + 2] + 0
    local first, mixed = true, count < 0
    if mixed then count = -count end
    while count > 0 do
      local slot = earliest(queue, tail, permits)
      local wait, together, step = slot - now, 1, 0
      if not (slot < 2 ^ 53) then return redis.error_reply('STATE the state is damaged') end
      if wait > longest then
        if mixed and not first then return reply, granted end
        together = mixed and -1 or -count
      else
        if count > 1 then together = rarely(queue).fitting(slot, permits, count) end
        for j = 1, #queue do
          local track = queue[j]
          local last, closed = track.last, track.closed
          if last > 0 and last < slot and not extends(track, slot, permits * together, spacing, now) then
            local n = #closed
            closed[n + 1], closed[n + 2], track.sealed = last, track.total, nil
          end
          if last < slot then track.last = slot end
          track.total = track.total + permits * together
          if track.total > 9999999999 then
            rarely(queue).repack(track)
            if track.total > 9999999999 then return redis.error_reply('FULL the queue holds more permits than it can count') end
          end
        end
        tail, granted, queue.sequence = slot, true, queue.sequence + permits * together
        if count > 1 and spacing > 0 then
          local more = rarely(queue).in_a_row(slot, longest - wait, count - together)
          if more > 0 then tail, together, step = slot + more * spacing, together + more, spacing end
        end
      end
      reply[size + 1], reply[size + 2], reply[size + 3] = wait, together, step
      size, count, turns, first = size + 3, together > 0 and count - together or 0, turns + #queue, false
      if turns >= 100 or mixed and together < 0 then return reply, granted end -- each may cost 2 µs
    end
  end
  return reply, granted
end

-- Returns nothing, or the error of the server, and the newest slot that may count.
local function write_queue(queue)
  local format, tail, natural, newest = string.format, bounds(queue)
  local now, notes, count = queue.now, '', #queue
  if queue.ends > natural or queue.offset + queue.lost + queue.forgiven + queue.blind > 0 then
    notes = rarely(queue).notes(natural)
  else
    queue.ends = natural
  end
  local text = format('fair2 %s %d %d %s %d%s\n', queue.generation, queue.sequence, now, queue.windows, count, notes)
  for i = 1, count do
    local track = queue[i]
    if track.stored + #track.closed / 2 >= 131 then rarely(queue).make_room(track, tail) end
    local closed, digits, added = track.closed, track.slot_digits, #track.closed
    if not track.shape or added > 0 and (closed[added - 1] - track.origin >= 10 ^ digits or closed[added] >= 10 ^ (track.size - digits)) then
      rarely(queue).repack(track)
      closed, digits, added = track.closed, track.slot_digits, #track.closed
    end
    local more, cells = '', ''
    if track.coarse or track.idle then
      more = format(' %d %d %d %d', track.idle or 0, track.coarse or 0, track.moments or 0, track.sealed and 1 or 0)
    end
    if added > 0 then
      local cell = format('%%0%dd%%0%dd', digits, track.size - digits)
      for j = 1, added / 2 do closed[j] = format(cell, closed[2 * j - 1] - track.origin, closed[2 * j]) end
      cells = added == 2 and closed[1] or table.concat(closed, '', 1, added / 2)
    end
    local line = format('%d %d %s%s:', track.last, track.total, track.shape, more)
    local kept = string.sub(track.text, track.at - track.size, track.at + track.stored * track.size - 1)
    text = text .. line .. kept .. cells .. '\n'
  end
  local reply = redis.pcall('PSETEX', KEYS[1], format('%d', math.ceil((queue.ends - now) / 1000) + 1), text)
  return reply.err and redis.error_reply(reply.err), newest
end

function rarely(queue)
  if queue.seldom then return queue.seldom end
  local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
  local MOST_ACTIVE = 130 -- cells of a track that may still hold back the next turn
  local MOST_CELLS = 131  -- and those further back, which matter when the queue is cancelled back to them
  local MOST_TRACKS = 16  -- of all callers together
  local seldom = {}

  function seldom.read_notes(notes)
    local offset, ends, lost, forgiven, blind = string.match(notes, '^ (%d+) (%d+) (%d+) (%d+) ([01])$')
    if not offset or max(offset, ends, lost, forgiven) >= 2 ^ 53 then return false end
    queue.offset, queue.ends, queue.lost, queue.forgiven, queue.blind = offset + 0, ends + 0, lost + 0, forgiven + 0, blind + 0
    return true
  end

  -- Keeps the key, as long as there is reason to, for longer than what is held.
  function seldom.notes(natural)
    local now, kept = queue.now, 0
    if natural <= now then queue.lost = 0 end
    if queue.forgiven + queue.offset <= now then queue.forgiven = 0 end
    if queue.forgiven > 0 then natural = max(natural, queue.forgiven + queue.offset) end
    if queue.ends > natural then kept = queue.ends else queue.ends = natural end
    if queue.offset + kept + queue.lost + queue.forgiven + queue.blind == 0 then return '' end
    return string.format(' %d %d %d %d %d', queue.offset, kept, queue.lost, queue.forgiven, queue.blind)
  end

  local function count_closed(track)
    return track.stored + #track.closed / 2
  end

  -- The running total at the moment.
  local function total_until(track, moment)
    if track.last <= moment then return track.total end
    local count, low = count_closed(track), 0
    local high = count
    while low < high do
      local middle = ceil((low + high) / 2)
      if slot_of(track, middle) <= moment then low = middle else high = middle - 1 end
    end
    local total = low == 0 and track.base or total_of(track, low)
    if queue.pitch == 0 then return total end
    local slot, upto = track.last, track.total -- of the cell that the moment lies in
    if low < count then slot, upto = slot_of(track, low + 1), total_of(track, low + 1) end
    return max(total, upto - ceil((slot - moment) / queue.pitch) * queue.crowd)
  end

  -- How many equal requests fit at the slot, the first of which does.
  function seldom.fitting(slot, permits, count)
    for i = 1, queue.asked do
      local track = queue[i]
      local room = track.most - track.total + total_until(track, slot - track.length)
      count = min(count, floor(room / permits))
    end
    return max(1, count)
  end

  -- Grants single permits one spacing apart behind the slot, where nothing but the spacing holds them back: in a queue for one permit at a time
  -- whose newest cell is a row. Returns how many.
  function seldom.in_a_row(slot, left, count)
    local track, spacing = queue[1], queue.spacing
    if queue[2] or track.most > 1 or track.coarse or not extends(track, slot + spacing, 1, spacing, queue.now) then return 0 end
    local more = max(0, min(count, floor(left / spacing), 9999999999 - track.total))
    track.last, track.total, queue.sequence = track.last + more * spacing, track.total + more, queue.sequence + more
    return more
  end

  -- What was lost fills every window.
  function seldom.after_what_was_lost(tail)
    for i = 1, queue.asked do tail = max(tail, queue.lost + queue[i].length) end
    return tail
  end

  -- Makes the cells as narrow as will do for some lengths to come. What has passed of a row leaves it.
  function seldom.repack(track)
    local closed, from, base, spacing = {}, track.from, track.base, queue.spacing
    local first, upto, oldest = track.last, track.total, queue.now - 2 * track.length
    if count_closed(track) > 0 then first, upto = slot_of(track, 1), total_of(track, 1) end
    if from < oldest and first > from and spacing > 0 and first - from == (upto - base) * spacing then
      local passed = floor((oldest - from) / spacing)
      from, base = from + passed * spacing, base + passed
    else
      from = max(from, oldest)
    end
    for i = 1, count_closed(track) do
      closed[2 * i - 1], closed[2 * i] = slot_of(track, i), total_of(track, i) - base
    end
    local slot_digits = #string.format('%d', min(2 ^ 53, 8 * max(track.length, track.last - from, 12500000)))
    local total_digits = min(10, #string.format('%d', 8 * max(track.total - base, 1250)))
    track.from, track.base, track.total, track.origin, track.closed, track.stored = from, 0, track.total - base, from, closed, 0
    track.slot_digits, track.size = slot_digits, slot_digits + total_digits
    track.shape = string.format('%d %d %d %d', track.length, from, slot_digits, total_digits)
    track.text, track.at = string.rep('0', track.size), 1 + track.size
  end

  -- Runs are a track's cells as numbers, oldest first: until which slot (last), how many permits (permits), and, where the spacing tells, from
  -- which slot on they stand one spacing apart (first, else false).

  local function open_runs(track)
    local runs, before, total, spacing = {}, track.from, track.base, queue.spacing
    local function add(last, upto)
      local permits = upto - total
      if permits <= 0 or last < before then error('cells out of order') end
      local filled = spacing > 0 and (permits == 1 or last - before == permits * spacing)
      runs[#runs + 1] = { last = last, permits = permits, first = filled and last - (permits - 1) * spacing }
      before, total = last, upto
    end
    for i = 1, count_closed(track) do
      add(slot_of(track, i), total_of(track, i))
    end
    if track.last > 0 then add(track.last, track.total) end
    return runs
  end

  local function close_runs(track, runs)
    local total, newest, closed = 0, table.remove(runs), {}
    for i, run in ipairs(runs) do
      total = total + run.permits
      closed[2 * i - 1], closed[2 * i] = run.last, total
    end
    track.base, track.stored, track.closed, track.shape = 0, 0, closed, false
    track.last, track.total = newest and newest.last or 0, newest and total + newest.permits or 0
    track.sealed = track.coarse and newest and true or nil
  end

  -- A run that begins after a gap needs its first slot as a cell, or the gap would be lost.
  local function mark_gaps(runs, before)
    local out, spacing = {}, queue.spacing
    for _, run in ipairs(runs) do
      local first = run.first
      if first and run.permits > 1 and before ~= first - spacing then
        out[#out + 1] = { first = first, last = first, permits = 1 }
        run = { first = first + spacing, last = run.last, permits = run.permits - 1 }
      end
      out[#out + 1] = run
      before = run.last
    end
    return out
  end

  -- Cuts what a spacing tells into cells that need none, at most so many more.
  local function cut(runs, most)
    local out, permits, spacing = {}, 0, queue.spacing
    for _, run in ipairs(runs) do permits = permits + run.permits end
    local size = max(1, ceil(permits / most))
    for _, run in ipairs(runs) do
      local last, left = run.first and run.first - spacing, run.permits
      while last and left > size do
        last, left = last + size * spacing, left - size
        out[#out + 1] = { last = last, permits = size, first = false }
      end
      out[#out + 1] = { last = run.last, permits = left, first = false }
    end
    return out
  end

  -- Whether the older run, behind a cell at before, and the newer are one row.
  local function one_row(older, newer, before)
    local spacing = queue.spacing
    return older.first and newer.first and older.first == before + spacing and newer.first == older.last + spacing
  end

  -- Merges neighbours for as long as fits(older, newer, before), in which before is the slot of the cell before the older.
  local function merge(runs, before, fits)
    local out = {}
    for _, run in ipairs(runs) do
      local older = out[#out]
      if older and fits(older, run, before) then
        out[#out] = { last = run.last, permits = older.permits + run.permits, first = one_row(older, run, before) and older.first }
      else
        before = older and older.last or before
        out[#out + 1] = run
      end
    end
    return out
  end

  -- Those that are active merge within a 64th of the length, on a grid that the next window shares.
  local function merge_active(runs, from, active, length)
    local function share(slot) return floor(slot * 64 / length) end
    return merge(runs, from, function(older, newer)
      return active(older) and share(older.first or older.last) == share(newer.last)
    end)
  end

  local function count_behind(runs, active)
    local behind = 0
    while runs[behind + 1] and not active(runs[behind + 1]) do behind = behind + 1 end
    return behind
  end

  -- Those further back merge into equal shares of the backlog, and near the clock into finer ones: when all cancel, what is left as wait is what
  -- remains of the cell that the clock stands in. Nothing before the horizon counts any more.
  local function merge_behind(runs, from, active, room, horizon, backlog)
    local share, now = backlog / room, queue.now
    while count_behind(runs, active) > room do
      runs = merge(runs, from, function(older, newer, before)
        local span, away = newer.last - max(older.first or before, horizon), math.abs(older.last - now)
        return not active(newer) and span <= share * min(1, away * 8 / backlog + 0.125)
      end)
      share = share * 1.5
    end
    return runs
  end

  -- Writes runs into the track's cells. While they fit nothing is lost: only rows merge. Active cells merge only when the window has held more
  -- distinct moments than it has cells for; but then those behind need not make room for them.
  local function settle(track, runs, tail)
    local length, from, now, spacing = track.length, track.from, queue.now, queue.spacing
    local function active(run) return run.last + length > tail end
    if spacing > 0 then runs = merge(mark_gaps(runs, from), from, one_row) end
    local behind, permits = count_behind(runs, active), 0
    for i = behind + 1, #runs do permits = permits + runs[i].permits end
    local blurred = track.coarse and track.coarse > tail or spacing > 0 and permits > MOST_ACTIVE
    if #runs - behind > MOST_ACTIVE or blurred and #runs > MOST_CELLS then
      runs = merge_active(runs, from, active, length)
      if not track.coarse or track.coarse <= tail then track.coarse, track.moments = tail + length, 0 end
    end
    if #runs > MOST_CELLS then
      local room = max(1, floor((MOST_CELLS - #runs + behind) * 0.85))
      runs = merge_behind(runs, from, active, room, now - length, max(length, tail - now))
    end
    close_runs(track, runs)
  end

  function seldom.make_room(track, tail)
    settle(track, open_runs(track), max(queue.now, tail))
  end

  -- Gives back a slot that has not left the window: permits that fill their run leave a gap, others only their number.
  local function give_back(runs, slot, permits)
    local low, high, spacing = 1, #runs + 1, queue.spacing
    while low < high do
      local middle = floor((low + high) / 2)
      if runs[middle].last >= slot then high = middle else low = middle + 1 end
    end
    local run = runs[low]
    if not run or run.permits < permits then return end
    if run.first and slot >= run.first and (slot - run.first) % spacing == 0 then
      table.remove(runs, low)
      if slot < run.last then
        table.insert(runs, low, { first = slot + spacing, last = run.last, permits = (run.last - slot) / spacing })
      end
      if slot > run.first then
        table.insert(runs, low, { first = run.first, last = slot - spacing, permits = (slot - run.first) / spacing })
      end
    elseif run.permits == permits then
      table.remove(runs, low)
    else
      run.permits, run.first = run.permits - permits, false
    end
  end

  -- Lets the key end no sooner than it would now.
  local function hold_on()
    local _, natural = bounds(queue)
    queue.ends = max(queue.ends, natural)
  end

  -- Returns the reply and whether anything was given back. The key ends no sooner for it.
  function seldom.back()
    local free, opened, tail, now = {}, {}, nil, queue.now
    for i = 6, #ARGV, 4 do
      local slot, permits, unused = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3] == '1'
      if ARGV[i] == queue.generation and (slot > now or unused) then free[#free + 1] = { slot = slot, permits = permits } end
    end
    if #free == 0 then return 0, false end
    hold_on()
    for i, track in ipairs(queue) do
      local runs = open_runs(track)
      for _, gone in ipairs(free) do
        if gone.slot + track.length > now then give_back(runs, gone.slot, gone.permits) end
      end
      local last = #runs > 0 and runs[#runs].last or 0
      opened[i], tail = runs, min(tail or last, last)
    end
    for i, track in ipairs(queue) do settle(track, opened[i], max(now, tail)) end
    return #free, true
  end

  function seldom.status()
    local now, available, queued = queue.now, nil, nil
    local tail = seldom.after_what_was_lost(max(now, (bounds(queue))))
    for i = 1, queue.asked do
      local track = queue[i]
      local free = track.most - track.total + total_until(track, now - track.length)
      local ahead = track.total - total_until(track, now)
      available, queued = min(available or free, free), min(queued or ahead, ahead)
    end
    local slot = earliest(queue, tail, 1)
    if not (slot < 2 ^ 53) then return redis.error_reply('STATE the state is damaged') end
    return { tail > now and 0 or max(0, available), max(0, queued), slot - now }
  end

  local function windows_of(word)
    local windows = {}
    for most, length in string.gmatch(word, '(%d+)/(%d+)') do
      windows[#windows + 1] = { most = most + 0, length = length + 0 }
    end
    return windows
  end

  -- The pitch and the crowd that windows impose: of those for one permit the longest, else the shortest.
  local function set_pace(windows)
    local pace
    for _, window in ipairs(windows) do
      local single = window.most == 1
      if not pace or single and (pace.most > 1 or window.length > pace.length)
        or not single and pace.most > 1 and window.length < pace.length then
        pace = window
      end
    end
    queue.pitch, queue.crowd, queue.spacing = pace.length, pace.most, pace.most == 1 and pace.length or 0
  end

  local function new_track(length)
    return { last = 0, total = 0, length = length, text = '', at = 1, stored = 0, from = 0, base = 0, closed = {}, shape = false }
  end

  -- Lines up a track for each of the caller's windows, in that order, and behind them the tracks of callers who are held to others, until three
  -- lengths have passed since they were last noted, so that two pass without them; of too many the longest stay, from which the others can be made
  -- again. A track that is new starts from the next longer, or else the longest. Reports whether the caller is to be noted, even if it is refused:
  -- one whose track is new, or was last noted a length ago.
  local function line_up(windows)
    local lined, taken, others, waking, now = {}, {}, {}, false, queue.now
    for i, window in ipairs(windows) do
      local best
      for _, track in ipairs(queue) do
        local enough, best_enough = track.length >= window.length, best and best.length >= window.length
        if not best or enough and (not best_enough or track.length < best.length)
          or not enough and not best_enough and track.length > best.length then
          best = track
        end
      end
      local track = best or new_track(window.length)
      if track.length == window.length then
        taken[track] = true
        waking = waking or track.idle and track.idle + track.length <= now
      else
        waking = true
        track = new_track(window.length)
        for field, value in pairs(best) do track[field] = value end
        track.length, track.closed, track.shape, track.coarse, track.sealed = window.length, {}, false, nil, nil
      end
      track.most, track.idle, lined[i] = window.most, nil, track
    end
    for _, track in ipairs(queue) do
      if not taken[track] and (not track.idle or track.idle + 3 * track.length > now) then
        track.idle = track.idle or now
        others[#others + 1] = track
      end
    end
    table.sort(others, function(a, b) return a.length > b.length end)
    for i = 1, max(#queue, MOST_TRACKS) do
      queue[i] = lined[i] or i <= MOST_TRACKS and others[i - #lined] or nil
    end
    queue.asked = #lined
    return waking
  end

  local function empty()
    for _, track in ipairs(queue) do
      if track.last > 0 then return false end
    end
    return true
  end

  -- Cells stay where they are known to stand now.
  local function forget_pace()
    local opened, tail = {}, max(queue.now, (bounds(queue)))
    for i, track in ipairs(queue) do opened[i] = cut(open_runs(track), MOST_CELLS) end
    queue.pitch, queue.crowd, queue.spacing, queue.blind = 0, 1, 0, 1
    for i, track in ipairs(queue) do settle(track, opened[i], tail) end
  end

  -- Makes a queue that is new, or whose last caller was held to other windows, this caller's. Those who only look or give back leave its windows and
  -- its pace to it. Reports whether it is to be written even if nothing is granted.
  function seldom.join(op, word)
    if string.format('%d', 2 ^ 53) ~= '9007199254740992' then error('this server counts with 32 bits') end
    local known, windows, waking = windows_of(queue.windows), windows_of(word), false
    if #known == 0 or queue[1] and #queue < #known then error('windows are missing') end
    if queue.blind == 0 then set_pace(known) end
    if queue[1] then hold_on() end
    if op ~= 'back' or not queue[1] then waking = line_up(windows) end
    for _, track in ipairs(queue) do drop_passed(track, queue.now) end
    if op == 'take' or op == 'reset' then
      local pitch, crowd = queue.pitch, queue.crowd
      set_pace(windows)
      if empty() then
        queue.blind = 0
      elseif queue.pitch ~= pitch or queue.crowd ~= crowd then
        queue.pitch, queue.crowd, queue.spacing = pitch, crowd, crowd == 1 and pitch or 0
        forget_pace()
      end
      queue.windows = word
    end
    return waking
  end

  -- What the caller was told and this state does not know of was lost: it counts as full. If nobody has written since, so that the state is just an
  -- older one, as many permits as are missing count instead, all at the newest slot. That is the safe side, even if some of them are given back: in
  -- place of one that counts too late, one that counts too early is free again. Reports whether there is anything.
  function seldom.heal(told, when, written, server)
    local generation, sequence, clock = string.match(told, '^(%w+) (%d+) (%d+)$')
    local newest, ends = string.match(when, '^(%d+) (%d+)$')
    local missing = generation == queue.generation and sequence - queue.sequence
    newest, ends, clock = newest + queue.offset, ends + 0, clock + 0
    if ends <= server or missing and missing <= 0 and clock <= written then return false end
    if not missing and (ends <= queue.forgiven or newest <= queue.lost) then return false end
    if missing and missing > 0 and missing < 1000000000 and written <= clock then
      if queue.pitch > 0 then forget_pace() end -- they may be those of callers who keep another
      for _, track in ipairs(queue) do
        local closed, last = track.closed, track.last
        if newest + track.length > queue.now then
          if last > 0 and last < newest then closed[#closed + 1], closed[#closed + 2] = last, track.total end
          track.last, track.total = max(last, newest), track.total + missing
        end
      end
      queue.sequence = sequence + 0
      return true
    end
    queue.lost = max(queue.lost, newest)
    if missing or written <= clock then queue.generation = ARGV[2] end -- turns of the state that was lost cannot be given back to this one
    return true
  end

  -- Leaves a queue without turns, that tells those who know of turns that these were not lost but forgotten. Those may know of more than this caller
  -- and the key do, where something was lost before: so it stays for an hour, or two lengths, at least.
  function seldom.reset(when, server)
    local left = redis.pcall('PTTL', KEYS[1])
    if type(left) == 'table' then return redis.error_reply(left.err) end
    local told = string.match(when, ' (%d+)$') or 0
    queue.now, queue.forgiven = server, max(told + 0, server + (left + 1) * 1000, server + 3600000000)
    seldom.join('reset', queue.windows)
    for _, track in ipairs(queue) do queue.forgiven = max(queue.forgiven, server + 2 * track.length) end
    queue.forgiven = min(queue.forgiven, 2 ^ 53 - 1)
    return write_queue(queue) or 1
  end

  queue.seldom = seldom
  return seldom
end

-- Returns the reply, or an error.
local function run(state, server)
  local op, told, windows = ARGV[1], ARGV[3], ARGV[5]
  if op == 'back' and not state and told == '' then return 0 end
  local queue = read_queue(state)
  if op == 'reset' then return rarely(queue).reset(ARGV[4], server) end
  if not queue then return redis.error_reply('STATE not the state of a queue, or that of another version, or damaged') end

  local touched, changed, reply = false, false, nil
  local clock, now = queue.now, server + queue.offset
  if now < clock then -- the server's clock has gone back: carry on from where the queue's was
    now, touched, queue.offset = clock, true, clock - server
  end
  queue.now = now
  local most, length = string.match(windows, '^(%d+)/(%d+)$')
  local track = queue[1]
  if most and windows == queue.windows and not queue[2] and track and queue.blind == 0 then
    drop_passed(track, now)
    most, length = most + 0, length + 0
    track.most, queue.asked, queue.pitch, queue.crowd, queue.spacing = most, 1, length, most, most == 1 and length or 0
  else
    touched = rarely(queue).join(op, windows) or touched
  end
  if told ~= '' and told ~= string.sub(state or '', 7, 6 + #told) then touched = rarely(queue).heal(told, ARGV[4], clock, server) or touched end

  if op == 'status' then return rarely(queue).status() end
  if op == 'take' then reply, changed = take(queue) else reply, changed = rarely(queue).back() end
  if type(reply) == 'table' and reply.err or not (changed or touched) then return reply end
  local problem, newest = write_queue(queue)
  if problem then return problem end
  if op == 'take' then
    reply[1], reply[2], reply[3], reply[4] = queue.generation, queue.sequence, newest, queue.ends
  end
  return reply
end

local state = redis.pcall('GET', KEYS[1])
if ARGV[1] == 'reset' then state = false elseif type(state) == 'table' then return redis.error_reply(state.err) end
local left = state and redis.call('PTTL', KEYS[1])
if left == -1 then return redis.error_reply('STATE the key has no TTL') end
local time = redis.call('TIME')
local read, reply = pcall(run, left ~= -2 and state, time[1] * 1000000 + time[2]) -- it may end between the two
return read and reply or redis.error_reply(string.format('STATE %s', reply))
