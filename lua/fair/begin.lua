-- Begins: sets the queue's clock, begins an epoch, selects windows, recovers.
--
-- Takes    what recover.lua leaves
-- Leaves   begin

-- Where nothing counts any more, a clock that a pause has left behind catches
-- up with the server's, so that the state can be plain again. Slots that anyone
-- knows of have left every window, or were given back.
local function catch_up(queue)
  if queue.rest > 0 or queue.slow_until > 0 then return end
  local _, natural = bounds(queue)
  if natural > queue.now then return end
  if queue.ends > 0 then queue.ends = queue.ends - queue.offset end
  queue.now, queue.offset = server, 0
end

-- Returns whether the queue is to be written even if nothing else happens,
-- and whether that is because something was lost.
local function begin(queue, returns)
  take_over(queue)
  local saw = what_was_seen(queue)
  local touched = set_clock(queue)
  if saw and saw.known and queue.took_over then carry_on(queue, saw) end
  local lost = saw and restore_pause(queue, saw)
  lost = saw and restore_clock(queue, saw) or lost
  if queue.offset < 0 and not saw then catch_up(queue) end
  touched = select_windows(queue, returns) or touched
  return touched, saw and recover(queue, saw) or lost
end
