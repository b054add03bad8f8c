-- Goes on with what a log has answered.
--
-- Takes    what amounts.lua, grant.lua and compact.lua leave

if stage == 'look' then
  at_least = now + ahead
  local most = coarse <= now and argv[6] * (1 + math.ceil((tail - now) / period)) or MOST_HELD
  if sequence - most > base then base = sequence - most end
  if sequence + argv[first + 1] - base >= MOST_HELD / 2 then -- else it has room when it is booked
    for _, number in ipairs({ FULL, -1, 0 }) do replies[#replies + 1] = number end
    stage = 'next'
  end
elseif stage ~= 'book' then
  local answered = 0
  answers = answers or { '', '', ahead, together, step }
  for i = 3, 3 * groups + 2 do replies[#replies + 1] = answers[i] end
  for i = 4, 3 * groups + 2, 3 do answered = answered + math.abs(answers[i]) end
  if stage == 'calls' and answered < wanted then passes = math.huge end
  if stage == 'turn' and granted > 0 then
    stage, unit, at_least = 'book', 0, now + ahead
  else
    stage = 'next'
  end
end
sums = sums + granted
logs[at].dirty = logs[at].dirty or granted > 0
