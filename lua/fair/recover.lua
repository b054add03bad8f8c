-- Finds out what was lost, and counts it again.
--
-- Takes    what narrow.lua leaves
-- Leaves   nothing but changed fields
--
-- ARGV[3] is '<fresh> <at> <newest> <comes> <within> <ends> <stands> <slow until>
-- <slow pace> <reset's end> <windows>': when the caller saw its position, in the
-- server's time; the newest slot that it was told, or the clock if that is later;
-- when that comes, in the server's time and, from now on, by the caller's clock;
-- when the queue ends; how much longer it stands still; up to when its clock
-- runs slower; the last reset that the caller knows of; and the windows of then,
-- '-' if they are the same now.
--
-- What the caller saw and this state does not know of was lost: the key is
-- gone, or the state is an older one, as after a failover. It is booked at the
-- newest slot that the caller was told, as one cell: as many permits as the
-- state lacks, or as any window holds if nobody knows how many. That is the
-- safe side. The clock reaches that slot no sooner than the caller was told: so
-- a pause goes on, and turns that one has put off stay where they are.

-- A cell of the ring: slot and total in base 94, from '!' on, and whether it
-- stands for more than its own slot.
local function cell_of(slot, total, flag)
  local bytes = {}
  total = total % 689869781056
  for i = 14, 9, -1 do bytes[i], total = 33 + total % 94, floor(total / 94) end
  for i = 8, 1, -1 do bytes[i], slot = 33 + slot % 94, floor(slot / 94) end
  return string.char(unpack(bytes)) .. flag
end

-- Counts permits at the slot, or at the newest if others were granted later
-- ones. Until they have left, each cell counts whole: they may be of callers
-- with other windows.
local function book(permits, slot)
  slot = math.max(slot, last)
  if slot > last and last + counts_for() > now then
    if closed - oldest < CELLS then
      local problem = redis.pcall('SETRANGE', key, size + closed % CELLS * WIDTH,
        cell_of(last, sequence, last < crowded and '~' or '.'))
      if type(problem) == 'table' then error(problem.err, 0) end
      closed = closed + 1
    else
      crowded = slot + 1
    end
  end
  if last + counts_for() <= now then closed, oldest, base, crowded = 0, 0, sequence, 0 end
  last, sequence, coarse = slot, sequence + permits, math.max(coarse, slot + counts_for())
  healed, must = true, true
end

-- Whether what the caller saw was forgotten by a reset that it does not know of,
-- which came after that.
local function was_reset(at, known_reset)
  return reset_end > server and known_reset < reset_end and at <= moment - offset + 1
end

-- Sets the clock by when the caller was told that the newest slot comes, and
-- returns that slot. A clock that has just begun takes it over. That of a server
-- which has just taken over goes on from what the caller saw. One that would get
-- there sooner stands still until then. If others began a queue of their own
-- meanwhile, its clock has nothing to do with the caller's.
local function restore_clock(known, seen_clock, newest, wait, stands)
  local told = moment_of(newest) - wait - server -- the offset by what was told
  if not known and not fresh then
    if stands > rest then stand_still(stands) end
    return math.max(newest, label_at(server + offset + wait))
  end
  if fresh then
    clock, offset = seen_clock, told
  elseif took_over and seen_clock > now then
    clock, offset = seen_clock, moment_of(seen_clock) - server
  elseif offset - told > 2 then -- they are rounded
    clock, offset = now, told
  end
  read_clock()
  return newest
end

-- How many permits any window holds.
local function most_of_all()
  local most = 1
  for _, window in ipairs(windows) do most = math.max(most, window.most) end
  for w = 6, windows_end, 3 do most = math.max(most, argv[w] + 0) end
  return most
end

local function recover()
  local generation, epoch, seen_sequence, seen_clock = match(seen, '^(%w+) (%w+) +(%d+) +(%d+)$')
  local at, newest, comes, within, ends_at, stands, slow, pace, known_reset, under =
    match(argv[3], '^%w+ (%d+) (%d+) (%-?%d+) (%-?%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+)$')
  if not generation or not at or ends_at + 0 <= server then return end
  seen_sequence, seen_clock = seen_sequence + 0, seen_clock + 0
  local known, upto, forgotten = generation == sub(name, 1, 8), nil, nil
  if known then upto, forgotten = known_of(epoch) end
  local strange = known and not upto and not forgotten
  local missing = seen_sequence - (upto or sequence)
  if known and not strange and missing <= 0 and seen_clock <= now then return end
  if not known and was_reset(at + 0, known_reset + 0) then return end

  local written = clock
  if (known or fresh) and slow + 0 > math.max(now, slow_until) then slow_until, slow_pace = slow + 0, pace + 0 end
  local wait = comes - server
  if within + 0 < wait - SILENCE then wait = within + 0 end -- the server's clock is another one
  newest = restore_clock(known, seen_clock, newest + 0, wait, stands + 0)
  must = true
  if known and not strange then
    local alone = upto == sequence and newest >= last -- nobody was granted anything since
    if missing > 0 then book(missing, newest) end
    if missing > 0 and upto and epoch ~= sub(name, 10, 17) then
      local ended, known = end_of(epoch)
      knows_of(epoch, ended, seen_sequence, alone and ended == known and newest)
    end
  elseif newest > full then
    full = newest
    book(most_of_all(), newest)
    if under ~= '-' then narrow(windows_of(under), newest) end
    if known or written <= seen_clock then
      -- Turns of the state that was lost cannot be given back to this one.
      name, epochs = sub(argv[3], 1, 8) .. sub(name, 9), ''
    end
  end
end

if seen ~= '' then recover() end
