-- Finds out what was lost, and remembers when the queue was silent.
--
-- Takes    what add.lua leaves
-- Leaves   what_was_seen, restore_pause, recover, note_silence, forget_silence, was_silent
--
-- What the caller saw and this state does not know of was lost: the key is
-- gone, or the state is an older one, as after a failover. It counts as full.
-- A pause goes on.

-- A replica takes over after a silence. What the old primary granted in that
-- time is of another history; see was_silent. As many silences are kept, the
-- longest, if there is room: each takes some 27 bytes. They are on the queue's
-- clock: of what is granted while it stands still, silences tell nothing.
local MOST_SILENCES = 8

-- Counts what this state lacks, and nobody has granted since, at the newest
-- slot that the caller saw. That is the safe side, even if some of it is given
-- back: in place of one that counts too late, one that counts too early is
-- free again.
local function add_missing(queue, missing, newest)
  local tail = math.max(queue.now, (bounds(queue)))
  if queue.interval > 0 then forget_pace(queue, tail) end -- they may be those of callers who keep another
  local passed = {}
  for i, window in ipairs(queue) do
    passed[i] = newest + window.length <= queue.now
    if passed[i] then open_log(queue, window) else add(queue, window, math.max(newest, window.last), missing) end
  end
  queue.sequence = queue.sequence + missing
  for i, window in ipairs(queue) do
    if passed[i] then close_log(queue, window) end
    window.room = 0
  end
  compact_full(queue, math.max(tail, newest))
end

-- What the caller saw last: nil if nothing, or nothing that is not here.
local function what_was_seen(queue)
  if seen == '' then return nil end
  local generation, sequence, clock = match(seen, '^(%w+) +(%d+) +(%d+)$')
  if generation == queue.generation and sequence + 0 <= queue.sequence and clock + 0 <= queue.clock then return nil end
  local newest, ends, pause_end, pause_left = match(ARGV[3], '^%w+ (%d+) (%d+) (%d+) (%d+)$')
  return {
    generation = generation, sequence = sequence + 0, clock = clock + 0,
    newest = newest + 0, ends = ends + 0, pause_left = math.min(pause_end - server, pause_left + 0)
  }
end

-- Lets a pause go on that the caller saw and this state does not know of. Where
-- nothing has been written since, the clock stands where it stood, so that all
-- slots are what they were. Returns whether there was one. It lasts no longer
-- than both clocks say, the server's and the caller's.
local function restore_pause(queue, saw)
  if saw.pause_left <= queue.rest then return false end
  if saw.generation ~= queue.generation then
    if queue.reset_end > server then return false end
    pause(queue, saw.pause_left)
  elseif queue.clock < saw.clock then
    queue.now, saw.restored = saw.clock, true
    stand_still(queue, saw.pause_left)
  else
    return false
  end
  return true
end

-- Counts again what was lost. Returns whether anything was.
local function recover(queue, saw)
  local known, written, clock = saw.generation == queue.generation, queue.clock, saw.clock
  local missing = saw.sequence - queue.sequence
  if saw.ends <= server or known and missing <= 0 and clock <= written then return false end
  if missing == 0 and saw.restored then return false end -- the pause was lost, and no turn
  local newest = saw.newest > 0 and math.max(0, label_at(queue, saw.newest + queue.offset)) or 0
  if not known and (queue.reset_end > server or newest <= queue.lost) then return false end
  queue.healed = true
  if known and missing > 0 and missing < 1000000000 and written <= clock then
    add_missing(queue, missing, newest)
    queue.clock = clock
    return true
  end
  queue.lost = math.max(queue.lost, newest)
  if known or written <= clock then
    -- Turns of the state that was lost cannot be given back to this one.
    queue.generation, queue.silences = sub(ARGV[3], 1, 8), ''
  end
  return true
end

-- Forgets the shortest silence.
local function forget_silence(queue)
  local silences, shortest = {}, nil
  for ended, lasted in string.gmatch(queue.silences, '(%d+) (%d+)') do
    silences[#silences + 1] = format('%d %d', ended, lasted)
    if not shortest or lasted + 0 < shortest then shortest, silences.least = lasted + 0, #silences end
  end
  table.remove(silences, silences.least)
  queue.silences = table.concat(silences, ' ')
end

-- Remembers that nothing was written for a while, when something is again.
local function note_silence(queue)
  if queue.clock == 0 or queue.now - queue.clock < SILENCE then return end
  queue.silences = match(format('%s %d %d', queue.silences, queue.now, queue.now - queue.clock), '^ ?(.*)$')
  local _, count = string.gsub(queue.silences, '%d+ %d+', '')
  if count > MOST_SILENCES then forget_silence(queue) end
end

-- Whether nothing was granted at the moment, as far as is remembered.
local function was_silent(queue, moment)
  if moment > queue.clock then return true end
  for ended, lasted in string.gmatch(queue.silences, '(%d+) (%d+)') do
    if moment < ended + 0 and moment > ended - lasted then return true end
  end
  return false
end
