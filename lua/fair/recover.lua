-- Finds out what was lost, and counts it again.
--
-- Takes    what narrow.lua, cells.lua, lost.lua and resets.lua leave
-- Leaves   changed fields; lives: until when the caller was told that the queue
--          does; remembers: what the watermark knows may still count;
--          unknown: nobody knows how many permits were lost; moves: where the slots
--          that the caller knows stand on this queue's clock; slowed: the turns of before
--          stand in a stretch of the caller's quotas
--
-- ARGV[3] is 12 words:
--
--   fresh        a name that was never used: see head.lua
--   at           when the caller heard of the queue last, in the server's time
--   since        how long ago that was, by the caller's clock
--   shown        the label that the queue's clock had then
--   newest       the newest slot that the caller was told
--   comes        how long after that the later of these two labels comes
--   ends         how long after that the queue ends
--   stands       for how long after that its clock stands still
--   known_reset  the end of the last reset that the caller knows of
--   stretches    where the clock is slow, as news.lua told it: see narrow.lua
--   under        the windows of then, as narrow.lua has them, '-' if they are the
--                same now
--   all          for windows.lua
--
-- What the caller saw and this state does not know of was lost: the key is
-- gone, or the state is an older one, as after a failover. A queue that is gone
-- goes on as an old copy of it would that has no turns: under its name, on its
-- clock, in a new epoch. What was lost is booked at the newest slot that the
-- caller was told, as one cell. If another caller knows of a later slot, it
-- stands there. That is the safe side. The clock reaches that slot no sooner
-- than the caller was told: so a pause goes on, and turns that one has put off
-- stay where they are.
--
-- If others have begun a queue meanwhile, its clock has nothing to do with the
-- caller's. Lost turns go when their callers were told, and count here at no
-- sooner than that. If the clock stands still or is slow then, they are missed.

-- Sets the clock by when the caller was told that labels come: a queue that is
-- restored takes that over, one whose clock would get there sooner stands still
-- until then. One that runs on a server which has just taken over goes on from
-- the label that it has shown.
local function restore_clock(shown, label, wait, stands, told)
  if fresh then
    clock, offset = shown, moment_of(label) - wait - server
  elseif took_over and shown > now then
    clock, offset = shown, moment_of(shown) - math.max(0, stands) - server
  else
    local sooner = sooner_than(told, label, wait, shown)
    if sooner > 2 then -- they are rounded
      local stood = rest > 0 or stands > 0 and clock <= shown -- then no turn of this label has gone
      clock, offset = math.max(stood and clock or clock + 1, shown), offset - sooner
    end
  end
  read_clock()
  forget_slow()
  if stands > rest + 2 then stand_still(stands) end -- a label that comes late enough need not wait for the clock
end

-- Slows the clock as the state does and as the caller was told: each label as the
-- slower one of both. No label comes sooner than by the clock of the state.
local function slow_as_both(told)
  local had, ends = slow, {}
  for _, stretch in ipairs(had) do ends[#ends + 1] = stretch.upto end
  for _, stretch in ipairs(told) do ends[#ends + 1] = stretch.upto end
  table.sort(ends)
  slow, paced = {}, 0 -- nobody knows which turns of both stand there
  for i, upto in ipairs(ends) do
    local one, other = stretch_at(upto, had), stretch_at(upto, told)
    if upto ~= ends[i - 1] then
      slow[#slow + 1] = { upto = upto, pace = math.max(one.pace, other.pace), under = joined(one.under, other.under) }
    end
  end
  join_stretches()
  if not fresh then offset = moment_of(now) + late - rest - server end
end

-- How long ago the caller saw its watermark. The server's clock tells, unless it
-- is another one: then the caller's does.
local CLOCKS_APART = 1000000

local function elapsed(at, since)
  return since - (server - at) > CLOCKS_APART and since or server - at
end

-- Slows what the state had, and what was counted again, as the caller's quotas
-- want it, from a slot on: those before stand in stretches that the caller knows.
-- Turns of both stand among each other, so all may be of the windows of either.
local function by_the_callers_quotas(under, from, upto)
  if not text_changes() and under == '-' and not (slow[1] and ARGV[1] ~= '') then return end
  local words = under == '-' and asked_words() or under
  if not fresh and not is_nobodys() then words = joined(word_of('', windows), words) end
  add_stretch(words, from, upto, sequence)
  pace_stretches()
  slowed = true
end

-- Lets permits up to a slot count for as long as the longest window of the caller
-- of then.
local function counts_longer(slot, under)
  local longest = ARGV[1] ~= '' and argv[7] + 0 or 0
  if under ~= '-' then longest = number(match(under, '^:%d+/(%d+)') or 0) end
  if longest > counts_for() and slot + longest > now then
    cut_rows()
    span, coarse, must = longest, math.max(coarse, slot + longest), true
  end
end

-- Goes on with the queue that the caller knows. Of what this state lacks as many
-- permits count as are missing, or as any window holds if nobody knows how many.
-- The epoch that granted them has ended: nothing of it can be given back, unless
-- all that was lost of it stands at one slot. Up to where this state knows of that
-- epoch, or whether it may have forgotten it, is as known_of tells.
local function go_on(generation, epoch, seen, upto, forgotten, newest, most)
  local alone, missing = upto == sequence and newest >= last, seen - (upto or sequence)
  if fresh then name, sequence = generation .. sub(name, 9), math.max(0, seen - most) end
  local counts = newest + counts_for() > now -- else nothing is known: others may know a longer window
  unknown = fresh or not upto and not forgotten
  if unknown then
    missing = counts and newest > full and most or 0 -- up to there all counts as full
    full = math.max(full, newest)
  end
  if missing > 0 then book(math.min(missing, MOST_PERMITS), newest) end -- no window holds more
  if unknown then
    knows_of(epoch, 0, counts and seen or 0)
  elseif missing > 0 and upto and epoch ~= sub(name, 10, 17) then
    local ended, known = end_of(epoch)
    knows_of(epoch, ended, seen, alone and ended == known and newest)
  end
end

-- Counts the queue that the caller knows in one that others have begun: as many
-- permits as any window holds, at its newest slot or behind all turns. The turns
-- of the caller's queue cannot be given back to this one.
local function join(label, newest, wait, stands, told, under)
  if stands > rest then
    stand_still(stands)
    must = true
  end
  local ahead = wait > 0 and math.max(0, wait - rest) or wait
  moves = now + ahead - moment_of(label, told)
  newest = moment_of(newest, told) + moves
  if newest <= full + 2 then return end -- it is counted already: they are rounded
  local upto = under == '-' and last or math.max(last, newest) -- what the caller was told under these quotas stays
  counts_longer(newest, under)
  if newest + counts_for() > now then fill(under, newest) end
  must = true
  by_the_callers_quotas(under, now, upto)
end

local function recover()
  local generation, epoch, seen, seen_clock = match(watermark, '^(%w+) (%w+) +(%d+) +(%d+)$')
  local at, since, shown, newest, comes, ends_in, stands, known_reset, slow_then, under =
    match(argv[3], '^%w+ (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) %S+$')
  if not generation or not at then return end
  seen, shown, newest, known_reset = seen + 0, shown + 0, newest + 0, known_reset + 0
  local gone = elapsed(at + 0, since + 0)
  if ends_in - gone <= 0 then return take_in(known_reset) end
  stands = stands + 0 > 0 and stands - gone or 0
  local known = generation == sub(name, 1, 8)
  if not known and reset_end > server and known_reset < reset_end then return end -- it was reset since
  remembers = true

  local upto, forgotten
  if known then upto, forgotten = known_of(epoch) end
  local is_told = known and (upto or forgotten) and seen <= (upto or sequence) -- of all that the caller knows
  local label, wait, told = math.max(newest, shown), comes - gone, read_stretches(slow_then)
  local is_newest = epoch == sub(name, 10, 17) and seen_clock + 0 <= clock
  local waits = rest >= stands - 2 and sooner_than(told, label, wait, shown) <= 2
  local lived_for = label_in(ends_in - gone) + 1 -- units may count for longer
  if is_told and (is_newest or waits) then
    if lived_for > ends + 2 then lives, must = math.max(lives, lived_for), true end -- they are rounded
    return counts_longer(newest, under)
  end
  if known or fresh then
    slow_as_both(told)
    local slowed_upto = math.min(newest, slow_until())
    restore_clock(shown, label, wait, stands, told)
    counts_longer(newest, under)
    go_on(generation, epoch, seen, upto, forgotten, newest, most_of_all(under))
    reset_end, must = math.max(reset_end, known_reset), true
    local until_slot = math.max(last, newest)
    if is_told then -- what stood behind was given back
      slow_up_to(last)
      until_slot = last
    end
    by_the_callers_quotas(under, fresh and slowed_upto or now, until_slot)
  else
    take_in(known_reset)
    join(label, newest, wait, stands, told, under)
  end
  lives = math.max(lives, label_in(ends_in - gone) + 1) -- units may count for longer
end

if watermark ~= '' then recover() end
