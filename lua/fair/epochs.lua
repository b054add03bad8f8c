-- Tells apart what different servers have granted.
--
-- Takes    what log.lua leaves; state, of open.lua
-- Leaves   take_over, known_of, knows_of, place_of
--
-- The time in which one primary writes the queue is an epoch. A server that
-- takes over, after a failover or a restart, goes on from what it has: the epoch
-- before it ended there. What the other server has granted behind that end is of
-- another history, though both may have granted equally many permits.
--
-- An entry is an epoch that has ended: ' <name> <end> <known>', two sequences.
-- Recovering may count again what was granted behind its end; known is up to
-- where. '@<slot>' follows if that stands at one slot, and nobody else's does.

-- As many letters of entries are kept: some seven; see MOST_BYTES in cells.lua.
-- Before the first one is '-', with a blank on each side, once others were
-- forgotten.
local MOST_LETTERS = 150

-- How long ago the state was written.
local function silence_of(queue)
  return server - (moment_of(queue, queue.clock) - queue.rest - queue.offset)
end

-- The words of an epoch's entry, nil if there is none. Where nothing follows
-- '@', the last is ''.
local function entry_of(queue, epoch)
  return match(queue.epochs, table.concat({ ' ', epoch, ' (%d+) (%d+)@?(%d*)' }))
end

local function without(queue, epoch)
  return (string.gsub(queue.epochs, table.concat({ ' ', epoch, ' %d+ %d+@?%d*' }), ''))
end

-- Ends the epoch of the state. One that a slot of a Cluster has come back to has
-- ended before.
local function end_epoch(queue)
  queue.epochs = format('%s %s %d %d', without(queue, queue.epoch), queue.epoch, queue.sequence, queue.sequence)
end

local function forget_epochs(queue)
  while #queue.epochs > MOST_LETTERS do
    queue.epochs = table.concat({ ' -', match(queue.epochs, '^ ?%-? %w+ %d+ %d+@?%d*(.*)$') or damaged() })
  end
end

-- Begins an epoch if another server wrote the state, or this one did before it
-- was a replica for a while. Where a server does not tell its replication, it is
-- known by its place in memory alone.
local function take_over(queue)
  if not state then return end -- its epoch has just begun
  local place = this_server()
  local same = queue.place == place
  if not same or silence_of(queue) >= SILENCE then
    local name = replication()
    if name then same = queue.epoch == name end
    if not same then
      end_epoch(queue)
      forget_epochs(queue)
      queue.epoch, queue.took_over = name or sub(ARGV[3], 1, 8), true
    end
  end
  queue.place = place
end

-- Up to which sequence this history knows of an epoch; nil if it does not have
-- it. Then whether it may have forgotten it.
local function known_of(queue, epoch)
  if epoch == queue.epoch then return queue.sequence end
  local _, known = entry_of(queue, epoch)
  if known then return number(known) end
  return nil, sub(queue.epochs, 1, 3) == ' - '
end

-- Remembers that it is known up to there. Alone says that nobody was granted
-- anything since it was last. If that was when it ended, all that counts again
-- does so at the slot.
local function knows_of(queue, epoch, sequence, alone, slot)
  local ended, known = entry_of(queue, epoch)
  local at = alone and ended == known and format('@%d', slot) or ''
  queue.epochs = format('%s %s %d %d%s', without(queue, epoch), epoch, ended, sequence, at)
  forget_epochs(queue)
end

-- At or behind which slot stands what was granted with a sequence in an epoch,
-- for the slot that its caller was told; nil if it is not of this history.
local function place_of(queue, granted, slot)
  local epoch, sequence = match(granted, '^(%w+) +(%d+)$')
  if not epoch then return nil end
  sequence = sequence + 0
  if epoch == queue.epoch then return sequence <= queue.sequence and slot or nil end
  local ended, known, at = entry_of(queue, epoch)
  if not ended then return nil end
  if sequence <= ended + 0 then return slot end
  return at ~= '' and sequence <= known + 0 and number(at) or nil
end
