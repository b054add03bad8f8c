-- Pauses the queue: lets its clock stand still, or for longer if it does already.
--
-- ARGV[5]    for how long from now, in microseconds
-- Returns    answer

stop_clock_until(now + ARGV[5])
write()
return answer()
