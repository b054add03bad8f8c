-- Makes the queue one of the caller's windows, where the caller before had
-- others. All windows read the same log. What another caller was granted need
-- not obey these windows: so until all of that has left, each cell counts whole.
--
-- Takes    what recover.lua leaves
-- Leaves   the header with the caller's windows; differs: others had other ones;
--          changed_text: both go by stored quotas, and others are stored now
--
-- Permits count for as long as the longest window that somebody has asked under
-- in the last two lengths. Of what had been forgotten before, it is not known
-- when it was granted: a longer window counts it at the oldest slot that is
-- kept.

-- The eight letters at the end of a head stand for the text of the quotas that
-- are stored: they tell whether these have changed. Callers who do not look for
-- them have '--------', and change nothing for turns that are held.

-- Cuts rows into pieces that are short enough to count whole.
local function cut_rows(short_by)
  local slots, totals, exact = read_cells()
  local ends_at, upto, rows, before = {}, {}, 0, base
  for i = 1, #slots do
    if exact[i] and totals[i] - before > short_by then rows = rows + 1 end
    before = totals[i]
  end
  if rows == 0 then return end
  local most = math.max(1, floor((CELLS - 64 - #slots) / rows))
  before = base
  for i = 1, #slots do
    local count = totals[i] - before
    local long = math.ceil(exact[i] and count > short_by and count / most or count)
    for behind = floor((count - 1) / long) * long, 0, -long do
      ends_at[#ends_at + 1], upto[#upto + 1] = slots[i] - span_of(behind), totals[i] - behind
    end
    before = totals[i]
  end
  write_cells(ends_at, upto, {})
end

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
  local old_size, longest, before = size, counts_for(), match(head, '(%S+)\n$')
  local old, stored = windows, sub(ARGV[1], -9, -2)
  differs = sub(head, 1, -10) ~= sub(ARGV[1], 1, -10)
  if differs and coarse <= now and last + longest > now and (relocates or must) then cut_rows(old[#old].most) end
  head, p, size, windows = ARGV[1], #ARGV[1], argv[4] + 1, windows_of(ARGV[1])
  if before ~= stored and before ~= '--------' and stored ~= '--------' then
    changed_text = true
    narrow(old, last, slow_pace)
  end
  if differs then
    marks = ''
    local forgotten = base -- it stands at the oldest slot from now on, whoever asks next
    if windows[1].length > longest then base = math.max(0, base - windows[1].most) end
    for _, window in ipairs(windows) do
      marks = format('%s%16d %4d\n', marks, (window.length > longest and base or forgotten) + window.most, oldest)
    end
    longest = math.max(longest, windows[1].length)
    if last + longest > now then
      span, coarse = longest, math.max(coarse, math.max(now, last) + 2 * longest)
    end
  end
  if relocates or must then
    local problem = relocate(old_size)
    if problem.err then return redis.error_reply(problem.err) end
    must = true
  else
    size = old_size -- the cells are still there
  end
end
