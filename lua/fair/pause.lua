-- Pauses the queue: lets its clock stand still, or for longer if it does already.
--
-- ARGV[REST]  for how long from now, in microseconds
-- Returns    answer

local ends = now + ARGV[REST]
if ends > queue.from + queue.offset then
  queue.from = clock()
  queue.offset = ends - queue.from
end
write()
return answer(true)
