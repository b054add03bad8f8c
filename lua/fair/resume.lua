-- Ends a pause: the clock goes on from where it stands, so all slots come sooner.
--
-- Returns    answer

local paused = queue.from + queue.offset > now
if paused then queue.offset = now - queue.from end
if paused or restored then write() end
return answer(paused or restored)
