-- The queue's clock: the server's, plus an offset. It stands still while the
-- queue is paused, and may run slower for a while.
--
-- Takes    what notes.lua leaves; server, of open.lua
-- Leaves   moment_of, label_at, wait_for, read_clock, set_clock, stand_still,
--          pause, is_ahead, in_server_time, is_quiet, news_of
--
-- Slots are labels on this clock: while it stands still nobody's slot changes,
-- but all come later. Of two labels the later one never comes less than their
-- difference after the other, so what is strict in labels is strict in time.
--
-- Server and offset together are the moment. Usually the clock is at just this
-- label. A pause takes from the offset, so that the moment falls behind the
-- clock, by rest, until it has caught up. Up to slow_until the clock runs
-- slower: a million of its microseconds take slow_pace. It has then shown a
-- label for a while, by which it is late.

-- The moment at which the clock reaches a label.
local function moment_of(queue, label)
  if label >= queue.slow_until then return label end
  return queue.slow_until - math.floor((queue.slow_until - label) * queue.slow_pace / 1000000)
end

-- The label that the clock has reached at a moment: the last one whose moment
-- is not later.
local function label_at(queue, moment)
  if moment >= queue.slow_until then return moment end
  local label = queue.slow_until - math.ceil((queue.slow_until - moment) * 1000000 / queue.slow_pace)
  if moment_of(queue, label) > moment then return label - 1 end
  if moment_of(queue, label + 1) <= moment then return label + 1 end
  return label
end

-- How long it takes from now on until the clock has reached a label. The
-- limiter reckons in the same way: see News.Until in package engine.
local function wait_for(queue, label)
  if label <= queue.now then return queue.rest end
  return queue.rest - queue.late + moment_of(queue, label) - moment_of(queue, queue.now)
end

-- Where the clock is by the offset. It does not go back: it stands still until
-- the moment has caught up.
local function read_clock(queue)
  local due, moment = moment_of(queue, queue.clock), server + queue.offset
  queue.rest = math.max(0, due - moment)
  queue.now = queue.rest > 0 and queue.clock or label_at(queue, moment)
  queue.late = queue.rest > 0 and 0 or moment - moment_of(queue, queue.now)
end

-- Sets the clock. What a pause does not explain of its being ahead of the
-- moment, the server's clock has gone back: then the offset makes up for it, so
-- that the queue's carries on. Returns whether that is so.
local function set_clock(queue)
  if queue.offset == 0 and queue.rest + queue.slow_until == 0 and queue.clock <= server then -- as ever
    queue.now = server
    return false
  end
  local excess = moment_of(queue, queue.clock) - server - queue.offset - queue.rest
  if excess > 0 then queue.offset = queue.offset + excess end
  read_clock(queue)
  if queue.now >= queue.slow_until then queue.slow_until, queue.slow_pace = 0, 0 end
  return excess > 0
end

-- Lets the clock stand still at now for so long.
local function stand_still(queue, rest)
  queue.rest, queue.late, queue.offset = rest, 0, moment_of(queue, queue.now) - rest - server
end

-- Pauses the queue for so long, or for as long as it is paused anyway. The
-- clock stands at a label that it has not shown before, so nobody has gone at
-- it: in a pause all turns from now on are ahead.
local function pause(queue, rest)
  if rest <= queue.rest then return end
  if queue.rest == 0 then queue.now = queue.now + 1 end
  stand_still(queue, rest)
end

-- Whether nobody can have gone at the slot yet.
local function is_ahead(queue, slot)
  return slot > queue.now or queue.rest > 0 and slot == queue.now
end

-- When the clock reaches a label, or reached it at the latest, on the server's
-- clock: what a limiter can remember while the offset changes. 0 stays 0.
local function in_server_time(queue, label)
  if label == 0 then return 0 end
  if queue.slow_until == 0 then return math.max(0, label - queue.offset) end
  local moment = moment_of(queue, math.max(label, queue.now)) - math.max(0, queue.now - label)
  return math.max(0, moment - queue.offset)
end

-- Whether nothing is to be told of the queue as a whole but its clock.
local function is_quiet(queue)
  return queue.rest == 0 and queue.slow_until == 0 and queue.reset_end <= server and not queue.healed
end

-- What a limiter is told of the queue as a whole:
-- '<generation> <clock> <rest> <slow until> <slow pace> <reset's end> <lost>
-- <server>': the rest is negative if the clock is late; then until when it is
-- remembered that the queue was reset, 0 if it was not; 1 if turns had been lost;
-- and the server's time.
local function news_of(queue)
  local reset_end = queue.reset_end > server and queue.reset_end or 0
  return format('%s %d %d %d %d %d %d %d', queue.generation, queue.now, queue.rest - queue.late, queue.slow_until,
    queue.slow_pace, reset_end, queue.healed and 1 or 0, server)
end
