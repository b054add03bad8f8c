-- Tells apart what different servers have granted.
--
-- Takes    what log.lua leaves
-- Leaves   take_over, forget_epoch, known_of, knows_of, is_of_this_history
--
-- The time in which one server writes the queue is an epoch. A server that takes
-- over, after a failover or a restart, goes on from what it has: the epoch
-- before it ended there. What the other server has granted behind that end is of
-- another history, though both may have granted equally many permits.
--
-- An epoch's name is the 7 letters of its server and 3 of chance, as a server
-- may take over twice. The state has the names of some that have ended; each
-- takes some 27 bytes.
local MOST_EPOCHS = 8

-- Forgets the oldest epoch that has ended.
local function forget_epoch(queue)
  queue.epochs = match(queue.epochs, '^ %w+ %d+ %d+(.*)$') or damaged()
end

-- Begins an epoch if another server wrote the state. Behind the name of the one
-- that ends stand its end, as a sequence, and up to which sequence it is known:
-- recover.lua may count again what was granted behind its end.
local function take_over(queue)
  if sub(queue.epoch, 1, 7) == this_server() then return end
  queue.epochs = format('%s %s %d %d', queue.epochs, queue.epoch, queue.sequence, queue.sequence)
  local _, count = string.gsub(queue.epochs, ' %w+ %d+ %d+', '')
  if count > MOST_EPOCHS then forget_epoch(queue) end
  queue.epoch = new_epoch()
end

-- Up to which sequence an epoch that has ended is known; nil if this history
-- does not have it, or not any more.
local function known_of(queue, epoch)
  local known = match(queue.epochs, table.concat({ ' ', epoch, ' %d+ (%d+)' }))
  return known and number(known)
end

-- Remembers that it is known up to there, and if nobody was granted anything
-- since, that it ended there: then what counts again stands where it did, or
-- later, and nobody else's turns do.
local function knows_of(queue, epoch, sequence, alone)
  local ended = alone and format('%d', sequence) or '%1'
  queue.epochs =
    string.gsub(queue.epochs, format(' %s (%%d+) %%d+', epoch), format(' %s %s %d', epoch, ended, sequence))
end

-- Whether this history has what was granted in an epoch up to a sequence.
local function is_of_this_history(queue, granted)
  local epoch, sequence = match(granted, '^(%w+) +(%d+)$')
  if not epoch then return false end
  local ended = match(queue.epochs, table.concat({ ' ', epoch, ' (%d+) %d+' }))
  if epoch == queue.epoch then ended = queue.sequence end
  return ended and sequence + 0 <= ended + 0
end
