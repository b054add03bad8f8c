-- Finds out what was lost.
--
-- Takes    what add.lua and epochs.lua leave
-- Leaves   what_was_seen, carry_on, restore_pause, restore_clock, recover
--
-- What the caller saw and this state does not know of was lost: the key is
-- gone, or the state is an older one, as after a failover. It counts as full.
-- A pause goes on, and turns that one has put off stay where they are.

-- Counts what this state lacks at the newest slot that the caller saw, or at the
-- newest of a window if others were granted later ones since. That is the safe
-- side, even if some of it is given back: in place of one that counts too late,
-- one that counts too early is free again.
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

-- What the caller saw last: nil if nothing, or if this epoch has all of it. Lacks
-- says that something of it is not here. Missing is how many permits this state
-- lacks, exact if it knows the epoch in which the caller was told. If it has
-- never heard of that, some are missing in any case. Full is up to which slot all
-- counted as full, if it does not here.
local function what_was_seen(queue)
  if seen == '' then return nil end
  local generation, epoch, sequence, clock = match(seen, '^(%w+) (%w+) +(%d+) +(%d+)$')
  local newest, ends, pause_end, pause_left, label, lost, reset_end =
    match(ARGV[3], '^%w+ (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  local known, upto, forgotten = generation == queue.generation, nil, nil
  if known then upto, forgotten = known_of(queue, epoch) end
  local missing, strange = sequence - (upto or queue.sequence), known and not upto and not forgotten
  local full = known and lost + 0 > queue.lost and lost + 0 or 0
  if ends + 0 <= server then return nil end
  local lacks = not known or strange or missing > 0 or clock + 0 > queue.clock or full > 0
  if not lacks and epoch == queue.epoch then return nil end
  return {
    lacks = lacks, known = known, epoch = epoch, upto = upto, strange = strange, missing = missing, full = full,
    sequence = sequence + 0, reset_end = reset_end + 0, clock = clock + 0, written = queue.clock,
    label = label + 0, newest = newest + 0, ends = ends + 0, pause_left = math.min(pause_end - server, pause_left + 0)
  }
end

-- Whether what the caller saw was forgotten by a reset. It came after that if the
-- caller knew of it, or saw it later than this state was written. The latter goes
-- by the server's time, which a pause makes seem earlier for what was seen, and
-- later for what was written.
local function was_reset(queue, saw)
  if queue.reset_end <= server or saw.reset_end >= queue.reset_end then return false end
  return saw.clock - math.max(0, saw.label - saw.newest) <= in_server_time(queue, saw.written) + 1
end

-- The clock does not go back to before what the caller saw, unless turns have
-- been granted by it since. By as much as the server is behind, the offset makes
-- up for it. What is left is a pause that the caller's queue did not have: the
-- clock stands still.
local function carry_on(queue, saw)
  if saw.clock <= queue.now then return end
  local excess = moment_of(queue, saw.clock) - server - queue.offset - queue.rest
  local behind = saw.clock + saw.newest - saw.label - math.max(0, saw.pause_left) - server
  queue.offset, queue.clock = queue.offset + math.max(0, math.min(excess, behind)), saw.clock
  read_clock(queue)
end

-- Lets a pause go on that the caller saw and this state does not know of. Where
-- nothing has been written since, the clock stands where it stood, so that all
-- slots are what they were. Returns whether there was one. It lasts no longer
-- than both clocks say, the server's and the caller's.
local function restore_pause(queue, saw)
  if saw.pause_left <= queue.rest then return false end
  if not saw.known then
    if was_reset(queue, saw) then return false end
    pause(queue, saw.pause_left)
  elseif saw.written < saw.clock and queue.took_over then
    queue.now = saw.clock
    stand_still(queue, saw.pause_left)
  else
    return false
  end
  return true
end

-- All counts as full up to the slot, for as long as the caller was told, or for
-- longer if it comes later.
local function fill(queue, saw, slot, later)
  local ends = label_at(queue, saw.ends + queue.offset) + (later or 0)
  queue.lost, queue.ends = math.max(queue.lost, slot), math.max(queue.ends, ends)
  queue.healed = true
end

-- Where this state's clock would reach the newest slot sooner than the caller was
-- told, it lacks a pause, or a slower clock, that may be over. If this run takes
-- over, the clock is put back by as much. Else turns may have been granted by it,
-- and all counts as full up to the moment that the caller was told. Moments are
-- rounded down. Returns whether there was one.
local function restore_clock(queue, saw)
  if not saw.known or saw.newest == 0 or queue.offset > 0 then return false end
  local early = saw.newest - in_server_time(queue, saw.label)
  if early <= 2 then return false end
  if queue.took_over then
    queue.offset = queue.offset - early
    read_clock(queue)
  else
    fill(queue, saw, label_at(queue, saw.newest + queue.offset))
  end
  return true
end

-- Counts again what was lost. Returns whether anything was. A slot of this
-- generation is what it was; of another one, its moment is known. But that may
-- have been this one under a later name, and a pause has put its slots off
-- since: then the slot is the later.
local function recover(queue, saw)
  if not saw.lacks then return false end
  if saw.full > 0 then fill(queue, saw, saw.full) end
  if saw.known and saw.missing <= 0 and not saw.strange then return saw.full > 0 end
  local newest, later = saw.label, 0
  if not saw.known then
    local at = saw.newest > 0 and math.max(0, label_at(queue, saw.newest + queue.offset)) or 0
    newest = math.max(newest, at)
    later = newest - at
  end
  if not saw.known and (was_reset(queue, saw) or newest <= queue.lost) then return false end
  local has_ended = saw.upto and saw.epoch ~= queue.epoch
  if saw.known and not saw.strange and saw.missing < 1000000000 and (has_ended or saw.written <= saw.clock) then
    local alone = saw.upto == queue.sequence -- nobody was granted anything since
    add_missing(queue, saw.missing, newest)
    queue.healed = true
    if has_ended then knows_of(queue, saw.epoch, saw.sequence, alone, newest) end
    return true
  end
  fill(queue, saw, newest, later)
  if saw.known or saw.written <= saw.clock then
    -- Turns of the state that was lost cannot be given back to this one.
    queue.generation, queue.epochs = sub(ARGV[3], 1, 8), ''
  end
  return true
end
