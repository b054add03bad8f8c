-- Takes in a reset that the caller knows of and the state does not. Else turns
-- of before would be taken for turns that count, or the other way round.
--
-- Takes    what clock.lua, epochs.lua and lost.lua leave; ARGV[3], see recover.lua
-- Leaves   take_in; reset_end and, if turns are forgotten, changed fields

-- Takes in a reset that the caller knows of. If this state had lost it, it is
-- carried out again: it forgets what others hold that have not heard of it, and a
-- pause is over. What has gone counts as full, unless nothing counts any more.
local function take_in(known_reset)
  if known_reset <= math.max(server, reset_end) then return end
  local counts = last + counts_for() > now
  reset_end = known_reset
  if fresh then return end
  closed, oldest, base, last, crowded, full = 0, 0, sequence, 0, 0, 0
  name, epochs = sub(argv[3], 1, 8) .. sub(name, 9), ''
  slow, paced, offset = {}, 0, now - server
  read_clock()
  if counts then fill('-', now) end
  must = true
end

-- Whoever knows of turns that count tells it with these: see recover.lua.
if watermark == '' then take_in(number(match(argv[3], '^%w+ %d+ %d+ %d+ %d+ %d+ %d+ %d+ (%d+)') or 0)) end
