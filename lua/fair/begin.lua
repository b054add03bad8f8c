-- Begins: sets the queue's clock, selects windows, recovers.
--
-- Takes    what recover.lua leaves
-- Leaves   begin

-- Returns whether the queue is to be written even if nothing else happens,
-- and whether that is because something was lost.
local function begin(queue, returns)
  local touched = false
  queue.now = server + queue.offset
  if queue.now < queue.clock then -- the server's clock has gone back: carry on
    queue.now, queue.offset, touched = queue.clock, queue.clock - server, true
  end
  touched = select_windows(queue, returns) or touched
  return touched, recover(queue)
end
