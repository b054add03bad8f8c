-- Makes the queue one of the caller's windows, where the caller before had
-- others.
--
-- Takes    what recover.lua and others.lua leave
-- Leaves   the header with the caller's windows; differs: others had other ones;
--          changed_text: both go by stored quotas, and others are stored now
-- The eight letters at the end of a head stand for the text of the quotas that
-- are stored: they tell whether these have changed. Callers who do not look for
-- them have '--------', and change nothing for turns that are held.

-- The header with the caller's windows is longer or shorter than the one there
-- is: what stands behind it moves.
local function relocate(old_size)
  local body = sub(call('GETRANGE', key, '0', '-1'), old_size + 1)
  local notes = settle()
  if notes then
    body = body .. string.rep(' ', CELLS * WIDTH - #body)
    body = sub(body, 1, CELLS * WIDTH) .. notes .. sub(body, CELLS * WIDTH + NOTES + 1)
  end
  ends = math.max(ends, last + counts_for())
  return redis.pcall('PSETEX', key, format('%d', math.ceil(wait_for(ends) / 1000) + 1),
    head .. mark .. flag .. place .. ' ' .. name .. format('%16d %16d %16d\n%16d %16d %16d %16d %16d %4d %4d %16d\n',
      sequence, now, last, offset, ends, crowded, coarse, span, closed, oldest, base) .. marks .. body)
end

if ARGV[1] == '' then
  as_arguments(unpack(argv, first))
elseif ARGV[1] ~= head then
  local old_size, before = size, match(head, '(%S+)\n$')
  local old, stored = windows, sub(ARGV[1], -9, -2)
  differs = sub(head, 1, -10) ~= sub(ARGV[1], 1, -10)
  if differs then go_by(windows_of(ARGV[1])) end
  head, p, size = ARGV[1], #ARGV[1], argv[4] + 1
  if before ~= stored and before ~= '--------' and stored ~= '--------' then
    changed_text = true
    narrow(old, last, slow_pace)
  end
  if relocates or must then
    local problem = relocate(old_size)
    if problem.err then return redis.error_reply(problem.err) end
    must = true
  else
    size = old_size -- the cells are still there
  end
end
