-- Finds out what was lost.
--
-- Takes    what add.lua and epochs.lua leave
-- Leaves   what_was_seen, restore_pause, recover
--
-- What the caller saw and this state does not know of was lost: the key is
-- gone, or the state is an older one, as after a failover. It counts as full.
-- A pause goes on.

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

-- What the caller saw last: nil if nothing, or nothing that is not here.
local function what_was_seen(queue)
  if seen == '' then return nil end
  local generation, epoch, sequence, clock = match(seen, '^(%w+) (%w+) +(%d+) +(%d+)$')
  local known = generation == queue.generation
  local upto = known and known_of(queue, epoch)
  local missing = sequence - (upto or queue.sequence)
  if known and missing <= 0 and clock + 0 <= queue.clock then return nil end
  local newest, ends, pause_end, pause_left = match(ARGV[3], '^%w+ (%d+) (%d+) (%d+) (%d+)$')
  return {
    generation = generation, epoch = epoch, has_ended = upto, sequence = sequence + 0, missing = missing,
    clock = clock + 0, newest = newest + 0, ends = ends + 0,
    pause_left = math.min(pause_end - server, pause_left + 0)
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

-- Counts again what was lost. Returns whether anything was. Where the epoch is
-- known in which the caller was told, so is how much that was, even if others
-- were granted permits since.
local function recover(queue, saw)
  local known, written, clock, missing = saw.generation == queue.generation, queue.clock, saw.clock, saw.missing
  if saw.ends <= server or known and missing <= 0 and clock <= written then return false end
  if missing == 0 and saw.restored then return false end -- the pause was lost, and no turn
  local newest = saw.newest > 0 and math.max(0, label_at(queue, saw.newest + queue.offset)) or 0
  if not known and (queue.reset_end > server or newest <= queue.lost) then return false end
  queue.healed = true
  local alone = saw.has_ended == queue.sequence -- nobody was granted anything since
  if known and missing > 0 and missing < 1000000000 and (saw.has_ended or written <= clock) then
    add_missing(queue, missing, newest)
    if saw.has_ended then knows_of(queue, saw.epoch, saw.sequence, alone) end
    queue.clock = math.max(written, clock)
    return true
  end
  queue.lost, queue.ends = math.max(queue.lost, newest), math.max(queue.ends, label_at(queue, saw.ends + queue.offset))
  if known or written <= clock then
    -- Turns of the state that was lost cannot be given back to this one.
    queue.generation, queue.epochs = sub(ARGV[3], 1, 8), ''
  end
  return true
end
