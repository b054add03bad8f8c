-- Reads what open.lua leaves out of the header: all is read before anything is
-- written.
--
-- Takes    what open.lua leaves, or what is unusual
-- Leaves   ends, span, base

if not unusual and not fresh then
  ends, span, base = sub(text, p + 97, p + 112) + 0, sub(text, p + 148, p + 163) + 0, sub(text, p + 175, p + 190) + 0
  if not (ends < 2 ^ 53 and span < MOST_SLOT and base <= sequence) then
    return redis.error_reply('STATE a header that is damaged')
  end
end
