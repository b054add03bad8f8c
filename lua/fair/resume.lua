-- Ends a pause: the clock goes on from where it stands, so all slots come sooner.
--
-- Returns    answer

local is_paused = queue.stood_at + queue.offset > now
if is_paused then queue.offset = now - queue.stood_at end
if is_paused or restored then write() end
return answer()
