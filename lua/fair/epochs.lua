-- Tells apart what different servers have granted.
--
-- Takes    what clock.lua leaves
-- Leaves   took_over, known_of, knows_of, was_lost, place_of
--
-- The time in which one primary writes the queue is an epoch. A server that
-- takes over, after a failover or a restart, goes on from what it has: the epoch
-- before it ended there. What the other server has granted behind that end is of
-- another history, though both may have granted equally many permits.
--
-- An entry is an epoch that has ended: ' <name> <end> <known>', two sequences.
-- Recovering may count again what was granted behind its end; known is up to
-- where. '@<slot>' follows if all of that stands at one slot, and nobody else's
-- does.

-- As many letters of entries are kept: some three. Before the first one is '-',
-- with a blank on each side, once others were forgotten.
local MOST_LETTERS = 96

local took_over = false

local function end_of(epoch)
  return match(epochs, ' ' .. epoch .. ' (%d+) (%d+)@?(%d*)')
end

-- Notes up to where an epoch went, up to where it is known, and the slot, nil if
-- it is none.
local function knows_of(epoch, ended, known, slot)
  epochs = string.gsub(epochs, ' ' .. epoch .. ' %d+ %d+@?%d*', '') .. format(' %s %d %d', epoch, ended, known)
  if slot then epochs = epochs .. format('@%d', slot) end
  while #epochs > MOST_LETTERS do
    epochs = ' -' .. (match(epochs, '^ ?%-? %w+ %d+ %d+@?%d*(.*)$') or damaged())
  end
end

-- Begins an epoch. Its name is 5 letters of the server, if it tells its
-- replication, and 3 new ones.
local function begin_epoch(server_letters)
  name = sub(name, 1, 9) .. (server_letters or sub(argv[3], 1, 5)) .. sub(argv[3], 6, 8) .. ' '
end

-- Begins one if there is no queue, if another server wrote the state, or if this
-- one did before it was a replica for a while. A server that does not tell its
-- replication is known by its place in memory alone.
local function take_over()
  local replid
  local epoch = sub(name, 10, 17)
  if fresh or own ~= place or server - written_at >= SILENCE then
    local info = redis.pcall('INFO', 'replication')
    replid = type(info) == 'string' and match(info, 'master_replid:(%w%w%w%w%w)') or nil
  end
  if fresh then
    begin_epoch(replid)
  elseif replid and replid ~= sub(epoch, 1, 5) or not replid and own ~= place then
    knows_of(epoch, sequence, sequence)
    begin_epoch(replid)
    took_over, must = true, true
  end
end

-- Up to which sequence this history knows of an epoch; nil if it does not have
-- it. Then whether it may have forgotten it.
local function known_of(epoch)
  if epoch == sub(name, 10, 17) then return sequence end
  local _, known = end_of(epoch)
  if known then return number(known) end
  return nil, sub(epochs, 1, 3) == ' - '
end

-- Whether a turn that was granted as '<epoch> <sequence>' was lost with its queue.
was_lost = function(granted_as)
  local epoch = match(granted_as, '^%w+')
  return epoch and end_of(epoch) == '0'
end

-- At or behind which slot stands what was granted at a slot as '<epoch>
-- <sequence>'; nil if it is of a history that a server has lost.
place_of = function(granted_as, slot)
  local epoch, at = match(granted_as, '^(%w+) +(%d+)$')
  if not epoch then return nil end
  if epoch == sub(name, 10, 17) then return at + 0 <= sequence and slot or nil end
  local ended, known, booked = end_of(epoch)
  if not ended then return nil end
  if at + 0 <= ended + 0 then return slot end
  return booked ~= '' and at + 0 <= known + 0 and booked + 0 or nil
end

take_over()
