-- Takes in a reset that the caller knows of and the state does not. Else turns
-- of before would be taken for turns that count, or the other way round.
--
-- Takes    what clock.lua, epochs.lua and lost.lua leave; ARGV[3], see recover.lua
-- Leaves   reset_again; reset_end and, if turns are forgotten, changed fields

-- Carries a reset out again that this state had lost: it forgets what others hold
-- that have not heard of it, and a pause is over. What has gone counts as full,
-- unless nothing counts any more.
local function reset_again(known_reset)
  local counts = last + counts_for() > now
  reset_end, closed, oldest, base, last, crowded, full, counted = known_reset, 0, 0, sequence, 0, 0, 0, '-'
  name, epochs = sub(argv[3], 1, 8) .. sub(name, 9), ''
  slow, paced, offset = {}, 0, now - server
  read_clock()
  if counts then book(most_of_all('-'), now) end
  must = true
end

-- A caller that knows of turns as well tells that with these.
if watermark == '' then
  local known_reset = number(match(argv[3], '^%w+ %d+ %d+ %d+ %d+ %d+ %d+ %d+ (%d+)') or 0)
  if known_reset > math.max(server, reset_end) then
    if fresh then reset_end = known_reset else reset_again(known_reset) end
  end
end
