-- The reservation queue: grants turns, gives them back, reports. The TTL of its key is the backlog.
--
-- KEYS[1]  the queue
-- ARGV[1]  'take', 'back' or 'status'
-- ARGV[2]  the generation to give a queue that is new: a word never used before
-- ARGV[3]  how many windows the caller is held to; then for each: most permits, length
-- then     take: for each run of equal requests: permits each, longest wait, how many
--          back: for each grant: generation, slot, permits, 1 if nobody has used them else 0
--
-- Returns  take: { generation, now, then for each run of equal answers: wait, how many (negative: refused) }, at least one, in the order of
--                the requests; those that are left unanswered are for the next call
--          back: how many were given back, the others having passed or gone
--          status: { permits to be had now, permits queued, wait for one more }
-- Errors   STATE: the key holds something else. FULL: the queue holds more permits than it can count. Either way nothing was changed.
--
-- Times and lengths are microseconds, integers below 2^53. What is written is only ever PSETEX, and only when something changed.
--
-- The state is text:
--
--   fair1 <generation> <clock> <offset> <pitch> <crowd> <how many windows>
--   <length> <idle since> <merged at> <slot before> <total before> <cells>:<cell><cell>...      a line for each window, called a track
--
-- A cell is 26 digits: a slot (16), and the running total of the permits granted up to it (10). It stands for the permits since the cell
-- before, all counted at its slot, the last of theirs; that is the safe side. Cells leave when their slot is a whole length behind the clock;
-- total and, if it matters, slot of the last that left stand before the others. Merged at is the tail when active cells last had to merge.
-- The queue's clock is the server's plus the offset, which grows when the server's goes back. A pitch that is not 0
-- says that no more than a crowd of permits ever stand within it, whatever was cancelled. So it tells by when each permit of a cell has come:
-- a crowd before the last, a pitch before the cell's slot; two crowds before it, two pitches.

local key, op, born, windows = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local first_extra = 4 + 2 * windows

local CELL = 26            -- digits
local MOST_ACTIVE = 130    -- cells of a track that may still hold back the next turn
local MOST_CELLS = 131     -- and those further back, which matter when the queue is cancelled back to them
local FINE = 64            -- cells that merge while they are active lie within one 64th of the length
local MOST_TOTAL = 9999999999
local MOST_TRACKS = 16     -- of all callers together
local MOST_BYTES = 4096    -- of one track
local MOST_ANSWERS = 100   -- what one run may cost the server: about 3 µs each
local TOO_LATE = 2 ^ 53    -- no moment is as late
local LATEST_CLOCK = 2 ^ 52 -- the year 2112

local sub, format = string.sub, string.format
local abs, floor, ceil, max, min = math.abs, math.floor, math.ceil, math.max, math.min

local function unreadable(what)
  return redis.error_reply(format('STATE %s', what))
end

-- A track is a table: length, idle (since when no caller was held to it, 0 while one is), merged, from and base (slot and total before its cells);
-- its closed cells, which are stored of them in a text from a place at on, and behind them those that this run closes, as slots and totals; and
-- the newest cell, which is open: last, total. Without cells last is 0, total is base.

local function new_track(length, idle, merged, from, base)
  return {
    length = length, idle = idle, merged = merged, from = from, base = base, last = 0, total = base,
    text = '', at = 1, stored = 0, slots = {}, totals = {}
  }
end

local function count_closed(track)
  return track.stored + #track.slots
end

local function slot_of(track, i)
  if i > track.stored then return track.slots[i - track.stored] end
  local at = track.at + (i - 1) * CELL
  return tonumber(sub(track.text, at, at + 15))
end

local function total_of(track, i)
  if i > track.stored then return track.totals[i - track.stored] end
  local at = track.at + i * CELL
  return tonumber(sub(track.text, at - 10, at - 1))
end

-- Before this run closes any.
local function drop_passed(track, now)
  local gone, length = 0, track.length
  while gone < track.stored and slot_of(track, gone + 1) + length <= now do gone = gone + 1 end
  if gone > 0 then
    track.from, track.base = slot_of(track, gone), total_of(track, gone)
    track.at, track.stored = track.at + gone * CELL, track.stored - gone
  end
  if track.stored == 0 and track.last > 0 and track.last + length <= now then
    track.from, track.base, track.last = track.last, track.total, 0
  end
end

-- Reads one line; returns the track and where the next begins, or nothing.
local function read_track(state, from)
  local length, idle, merged, slot, base, count, at = string.match(state, '^([1-9]%d*) (%d+) (%d+) (%d+) (%d+) (%d+):()', from)
  if not length or tonumber(length) >= TOO_LATE then return end
  length, idle, merged, slot, base, count =
    tonumber(length), tonumber(idle), tonumber(merged), tonumber(slot), tonumber(base), tonumber(count)
  local after = at + count * CELL
  if sub(state, after, after) ~= '\n' then return end
  local track = new_track(length, idle, merged, slot, base)
  if count > 0 then
    track.last, track.total = tonumber(sub(state, after - 26, after - 11)), tonumber(sub(state, after - 10, after - 1))
    if track.last < slot or track.last >= TOO_LATE or track.total < base then return end
    track.text, track.at, track.stored = state, at, count - 1
  end
  return track, after + 1
end

-- The moment by which the running total reaches need, which it does.
local function slot_reaching(queue, track, need)
  local slot, total, low, high = track.last, track.total, 1, count_closed(track)
  if high > 0 and total_of(track, high) >= need then
    while low < high do
      local middle = floor((low + high) / 2)
      if total_of(track, middle) >= need then high = middle else low = middle + 1 end
    end
    slot, total = slot_of(track, low), total_of(track, low)
  end
  return slot - floor((total - need) / queue.crowd) * queue.pitch
end

-- The running total at the moment.
local function total_until(queue, track, moment)
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

-- How far every permit is from the next, 0 if not known.
local function spacing(queue)
  return queue.crowd == 1 and queue.pitch or 0
end

-- Runs are a track's cells as numbers, oldest first: until which slot (last), how many permits (permits), and, where the pitch tells, from
-- which slot on they stand one pitch apart (first, else false).

local function open_runs(track, pitch)
  local runs, before, total = {}, track.from, track.base
  local function add(last, upto)
    local permits = upto - total
    if permits <= 0 or last < before then error('cells out of order') end
    local filled = pitch > 0 and (permits == 1 or last - before == permits * pitch)
    runs[#runs + 1] = { last = last, permits = permits, first = filled and last - (permits - 1) * pitch }
    before, total = last, upto
  end
  for i = 1, count_closed(track) do
    add(slot_of(track, i), total_of(track, i))
  end
  if track.last > 0 then add(track.last, track.total) end
  return runs
end

local function close_runs(track, runs)
  local total, newest = 0, table.remove(runs)
  track.base, track.stored, track.slots, track.totals = 0, 0, {}, {}
  for i, run in ipairs(runs) do
    total = total + run.permits
    track.slots[i], track.totals[i] = run.last, total
  end
  track.last, track.total = newest and newest.last or 0, newest and total + newest.permits or 0
end

-- A run that begins after a gap needs its first slot as a cell, or the gap would be lost.
local function mark_gaps(runs, pitch, before)
  local out = {}
  for _, run in ipairs(runs) do
    local first = run.first
    if first and run.permits > 1 and before ~= first - pitch then
      out[#out + 1] = { first = first, last = first, permits = 1 }
      run = { first = first + pitch, last = run.last, permits = run.permits - 1 }
    end
    out[#out + 1] = run
    before = run.last
  end
  return out
end

-- Cuts what a pitch tells into cells that need none, at most so many more.
local function cut(runs, pitch, most)
  local out, permits = {}, 0
  for _, run in ipairs(runs) do permits = permits + run.permits end
  local size = max(1, ceil(permits / most))
  for _, run in ipairs(runs) do
    local last, left = run.first and run.first - pitch, run.permits
    while last and left > size do
      last, left = last + size * pitch, left - size
      out[#out + 1] = { last = last, permits = size, first = false }
    end
    out[#out + 1] = { last = run.last, permits = left, first = false }
  end
  return out
end

-- Merges neighbours for as long as fits(older, newer, before), in which before is the slot of the cell before the older.
local function merge(runs, pitch, before, fits)
  local out = {}
  for _, run in ipairs(runs) do
    local older = out[#out]
    if older and fits(older, run, before) then
      local whole = older.first and run.first and older.first == before + pitch and run.first == older.last + pitch
      out[#out] = { last = run.last, permits = older.permits + run.permits, first = whole and older.first }
    else
      before = older and older.last or before
      out[#out + 1] = run
    end
  end
  return out
end

local function merge_filled(runs, pitch, from)
  return merge(runs, pitch, from, function(older, newer, before)
    return older.first and newer.first and older.first == before + pitch and newer.first == older.last + pitch
  end)
end

-- Those that are active merge within a 64th of the length, on a grid that the next window shares.
local function merge_active(runs, pitch, from, active, length)
  local grain = length / FINE
  return merge(runs, pitch, from, function(older, newer)
    return active(older) and floor(older.last / grain) == floor(newer.last / grain)
  end)
end

local function count_behind(runs, active)
  local behind = 0
  while runs[behind + 1] and not active(runs[behind + 1]) do behind = behind + 1 end
  return behind
end

-- Those further back merge into equal shares of the backlog, and near the clock into finer ones: when all cancel, what is left as wait is what
-- remains of the cell that the clock stands in. Nothing before the horizon counts any more.
local function merge_behind(runs, pitch, from, active, room, horizon, backlog, now)
  local share = backlog / room
  while count_behind(runs, active) > room do
    runs = merge(runs, pitch, from, function(older, newer, before)
      local span, away = newer.last - max(older.first or before, horizon), abs(older.last - now)
      return not active(newer) and span <= share * min(1, away * 8 / backlog + 0.125)
    end)
    share = share * 1.15
  end
  return runs
end

-- Writes runs into the track's cells. While they fit nothing is lost: only filled runs merge. Active cells merge only when the window has held
-- more distinct moments than it has cells for; but then those behind need not make room for them.
local function settle(track, runs, pitch, tail, now)
  local length, from = track.length, track.from
  local function active(run) return run.last + length > tail end
  if pitch > 0 then runs = merge_filled(mark_gaps(runs, pitch, from), pitch, from) end
  local behind, permits = count_behind(runs, active), 0
  for i = behind + 1, #runs do permits = permits + runs[i].permits end
  local blurred = track.merged + length > tail or pitch > 0 and permits > MOST_ACTIVE
  if #runs - behind > MOST_ACTIVE or blurred and #runs > MOST_CELLS then
    runs = merge_active(runs, pitch, from, active, length)
    track.merged = tail
  end
  if #runs > MOST_CELLS then
    local room = max(1, floor((MOST_CELLS - #runs + behind) * 0.85))
    runs = merge_behind(runs, pitch, from, active, room, now - length, max(length, tail - now), now)
  end
  close_runs(track, runs)
end

-- Gives back a slot that has not left the window: permits that fill their run leave a gap, others only their number.
local function give_back(runs, pitch, slot, permits)
  local low, high = 1, #runs + 1
  while low < high do
    local middle = floor((low + high) / 2)
    if runs[middle].last >= slot then high = middle else low = middle + 1 end
  end
  local run = runs[low]
  if not run or run.permits < permits then return end
  if run.first and slot >= run.first and (slot - run.first) % pitch == 0 then
    table.remove(runs, low)
    if slot < run.last then
      table.insert(runs, low, { first = slot + pitch, last = run.last, permits = (run.last - slot) / pitch })
    end
    if slot > run.first then
      table.insert(runs, low, { first = run.first, last = slot - pitch, permits = (slot - run.first) / pitch })
    end
  elseif run.permits == permits then
    table.remove(runs, low)
  else
    run.permits, run.first = run.permits - permits, false
  end
end

-- Returns what the key holds, false if nothing, or else what is wrong with it.
local function read_key()
  local state = redis.pcall('GET', key)
  if type(state) == 'table' then return false, redis.error_reply(state.err) end
  local left = state and redis.call('PTTL', key)
  if left == -1 then return false, unreadable('the key has no TTL') end
  return left ~= -2 and state -- it may end between the two
end

-- The queue is a table: generation, clock, offset, pitch and tracks. Returns nothing if the state is another's.
local function read_queue(state)
  if not state then return { generation = born, clock = 0, offset = 0, pitch = 0, crowd = 1, tracks = {} } end
  local generation, clock, offset, pitch, crowd, count, at =
    string.match(state, '^fair1 (%w+) (%d+) (%d+) (%d+) ([1-9]%d*) ([1-9]%d*)\n()')
  if not generation or #state > MOST_TRACKS * MOST_BYTES then return end
  local queue = {
    generation = generation, clock = tonumber(clock), offset = tonumber(offset), pitch = tonumber(pitch), crowd = tonumber(crowd),
    tracks = {}
  }
  if max(queue.offset, queue.pitch, queue.crowd) >= TOO_LATE or queue.clock >= LATEST_CLOCK then return end
  while at <= #state do
    local track
    track, at = read_track(state, at)
    if not track then return end
    queue.tracks[#queue.tracks + 1] = track
  end
  if #queue.tracks ~= tonumber(count) or #queue.tracks > MOST_TRACKS then return end
  return queue
end

-- The windows the caller is held to, and the pitch and crowd that they impose: of those for one permit the longest, else the shortest.
local function asked_windows()
  local asked, pace = {}, nil
  for i = 1, windows do
    local window = { most = tonumber(ARGV[2 + 2 * i]), length = tonumber(ARGV[3 + 2 * i]) }
    asked[i] = window
    local single = window.most == 1
    if not pace or single and (pace.most > 1 or window.length > pace.length)
      or not single and pace.most > 1 and window.length < pace.length then
      pace = window
    end
  end
  return asked, pace.length, pace.most
end

-- Lines up a track for each window asked for, in that order, and behind them the tracks of callers who are held to others, until two lengths
-- have passed without a turn of theirs, so that one passes without them; of too many the longest stay, from which the others can be made
-- again. A track that is new starts from the next longer, or else the longest. Reports whether a track was found that is to be kept and might
-- soon not be.
local function line_up(queue, asked, now)
  local lined, taken, others, waking = {}, {}, {}, false
  for i, window in ipairs(asked) do
    local best
    for _, track in ipairs(queue.tracks) do
      local enough, best_enough = track.length >= window.length, best and best.length >= window.length
      if not best or enough and (not best_enough or track.length < best.length)
        or not enough and not best_enough and track.length > best.length then
        best = track
      end
    end
    if best and best.length == window.length then
      taken[best] = true
      waking = waking or best.idle > 0 and best.idle + best.length <= now
      lined[i] = best
    else
      best = best or new_track(0, 0, 0, 0, 0)
      local track = new_track(window.length, 0, best.merged, best.from, best.base)
      track.last, track.total, track.text, track.at, track.stored = best.last, best.total, best.text, best.at, best.stored
      lined[i] = track
    end
    lined[i].idle = 0
  end
  for _, track in ipairs(queue.tracks) do
    if not taken[track] and (track.idle == 0 or track.idle + 2 * track.length > now) then
      if track.idle == 0 then track.idle = now end
      others[#others + 1] = track
    end
  end
  table.sort(others, function(a, b) return a.length > b.length end)
  for i = 1, min(#others, MOST_TRACKS - #asked) do
    lined[#lined + 1] = others[i]
  end
  queue.tracks = lined
  return waking
end

local function same_windows(queue, asked)
  if #queue.tracks ~= #asked then return false end
  for i, track in ipairs(queue.tracks) do
    if track.length ~= asked[i].length or track.idle > 0 then return false end
  end
  return true
end

-- FIFO's tail: every track's last cell stands at or after the newest slot still held, so the smallest of them is the tightest.
local function tail_of(queue, now)
  local tail
  for _, track in ipairs(queue.tracks) do
    if not tail or track.last < tail then tail = track.last end
  end
  return max(now, tail or 0)
end

-- Once a run, however many it granted: bounds what is written.
local function settle_full(queue, now)
  for _, track in ipairs(queue.tracks) do
    if count_closed(track) >= MOST_CELLS then settle(track, open_runs(track, spacing(queue)), spacing(queue), tail_of(queue, now), now) end
  end
end

local function write_queue(queue, now)
  settle_full(queue, now)
  local keep_from = spacing(queue) > 0
  local lines, ends = {
    format('fair1 %s %.0f %.0f %.0f %.0f %.0f\n', queue.generation, now, queue.offset, queue.pitch, queue.crowd, #queue.tracks)
  }, now
  for _, track in ipairs(queue.tracks) do
    local count, from = count_closed(track), keep_from and track.from or 0
    if track.last > 0 then
      count, track.slots[#track.slots + 1], track.totals[#track.totals + 1] = count + 1, track.last, track.total
      ends = max(ends, track.last + track.length)
    end
    lines[#lines + 1] = format('%.0f %.0f %.0f %.0f %.0f %.0f:', track.length, track.idle, track.merged, from, track.base, count)
    if track.stored > 0 then lines[#lines + 1] = sub(track.text, track.at, track.at + track.stored * CELL - 1) end
    for i, slot in ipairs(track.slots) do
      lines[#lines + 1] = format('%016.0f%010.0f', slot, track.totals[i])
    end
    lines[#lines + 1] = '\n'
  end
  local reply = redis.pcall('PSETEX', key, format('%.0f', ceil((ends - now) / 1000) + 1), table.concat(lines))
  return reply.err and redis.error_reply(reply.err)
end

-- The earliest moment from the tail on at which every window has room for the permits.
local function earliest(queue, asked, tail, permits)
  local slot = tail
  for i, window in ipairs(asked) do
    local track = queue.tracks[i]
    local need = track.total + permits - window.most
    if need > track.base then slot = max(slot, slot_reaching(queue, track, need) + window.length) end
  end
  return slot
end

-- How many equal requests fit at the slot, the first of which does.
local function fitting(queue, asked, slot, permits, count)
  for i, window in ipairs(asked) do
    local track = queue.tracks[i]
    local held = track.total - total_until(queue, track, slot - window.length)
    count = min(count, floor((window.most - held) / permits))
  end
  return max(1, count)
end

local function grant(queue, slot, permits, now)
  for _, track in ipairs(queue.tracks) do
    if track.last > 0 and track.last < slot then
      track.slots[#track.slots + 1], track.totals[#track.totals + 1] = track.last, track.total
    end
    track.last, track.total = max(track.last, slot), track.total + permits
    if track.total > MOST_TOTAL then
      settle(track, open_runs(track, spacing(queue)), spacing(queue), slot, now)
      if track.total > MOST_TOTAL then return redis.error_reply('FULL the queue holds more permits than it can count') end
    end
  end
end

local function take(queue, asked, now)
  local answers, tail, granted = { queue.generation, now }, tail_of(queue, now), false
  local most_answers = max(1, floor(MOST_ANSWERS / #queue.tracks))
  local function answer(wait, count)
    answers[#answers + 1], answers[#answers + 2] = wait, count
  end
  for i = first_extra, #ARGV, 3 do
    local permits, longest, count = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    while count > 0 do
      if #answers >= 2 + 2 * most_answers then return answers, granted end
      local slot = earliest(queue, asked, tail, permits)
      if not (slot < TOO_LATE) then return unreadable('the state is damaged') end
      if slot - now > longest then
        answer(slot - now, -count)
        break
      end
      local together = count > 1 and fitting(queue, asked, slot, permits, count) or 1
      local problem = grant(queue, slot, together * permits, now)
      if problem then return problem end
      answer(slot - now, together)
      tail, count, granted = slot, count - together, true
    end
  end
  return answers, granted
end

local function back(queue, now)
  local free = {}
  for i = first_extra, #ARGV, 4 do
    local slot, permits, unused = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3] == '1'
    if ARGV[i] == queue.generation and (slot > now or unused) then free[#free + 1] = { slot = slot, permits = permits } end
  end
  if #free == 0 then return 0, false end
  local opened, tail = {}, nil
  for i, track in ipairs(queue.tracks) do
    local runs = open_runs(track, spacing(queue))
    for _, gone in ipairs(free) do
      if gone.slot + track.length > now then give_back(runs, spacing(queue), gone.slot, gone.permits) end
    end
    local last = #runs > 0 and runs[#runs].last or 0
    opened[i], tail = runs, min(tail or last, last)
  end
  for i, track in ipairs(queue.tracks) do
    settle(track, opened[i], spacing(queue), max(now, tail), now)
  end
  return #free, true
end

local function status(queue, asked, now)
  local tail, available, queued = tail_of(queue, now), nil, nil
  for i, window in ipairs(asked) do
    local track = queue.tracks[i]
    local free = window.most - track.total + total_until(queue, track, now - window.length)
    local ahead = track.total - total_until(queue, track, now)
    available, queued = min(available or free, free), min(queued or ahead, ahead)
  end
  local slot = earliest(queue, asked, tail, 1)
  if not (slot < TOO_LATE) then return unreadable('the state is damaged') end
  return { tail > now and 0 or max(0, available), max(0, queued), slot - now }
end

local function empty(queue)
  for _, track in ipairs(queue.tracks) do
    if track.last > 0 then return false end
  end
  return true
end

-- For a caller whose windows do not keep it: cells stay where they are known to stand now.
local function forget_pitch(queue, now)
  local pitch, tail = spacing(queue), tail_of(queue, now)
  queue.pitch, queue.crowd = 0, 1
  for _, track in ipairs(queue.tracks) do
    settle(track, cut(open_runs(track, pitch), pitch, MOST_CELLS), 0, tail, now)
  end
end

local function decide(state, server)
  local queue = read_queue(state)
  if not queue then return unreadable('not the state of a queue, or that of another version, or damaged') end

  local now, asked, pitch, crowd = server + queue.offset, asked_windows()
  local reply, changed, touched
  if now < queue.clock then -- the server's clock has gone back: carry on from where the queue's was
    now, touched, queue.offset = queue.clock, true, queue.clock - server
  end
  if op ~= 'back' and not same_windows(queue, asked) then touched = line_up(queue, asked, now) or touched end
  for _, track in ipairs(queue.tracks) do
    drop_passed(track, now)
  end

  if op == 'status' then return status(queue, asked, now) end
  if op == 'take' then
    if pitch ~= queue.pitch or crowd ~= queue.crowd then
      if not empty(queue) then
        forget_pitch(queue, now)
        pitch, crowd = 0, 1
      end
      queue.pitch, queue.crowd = pitch, crowd
    end
    reply, changed = take(queue, asked, now)
  else
    reply, changed = back(queue, now)
  end
  if type(reply) == 'table' and reply.err then return reply end
  return (changed or touched) and write_queue(queue, now) or reply
end

local state, problem = read_key()
if problem then return problem end
local time = redis.call('TIME')
local read, reply = pcall(decide, state, time[1] * 1000000 + time[2])
return read and reply or unreadable(reply)
