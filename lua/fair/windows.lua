-- Makes the queue one of the caller's windows, where the caller before had
-- others.
--
-- Takes    what recover.lua and others.lua leave
-- Leaves   the header with the caller's windows; obeys: the caller has windows;
--          differs: others had other ones;
--          in_use: all of these; changed_text: both go by stored quotas, and others are stored now
--
-- A window that shorter ones imply (1 a second implies 100 in a minute) is none of
-- the caller's, as long as all turns obey the shorter ones. Turns of others may
-- not. So while these count, the queue is one of all windows: those of the last
-- word of ARGV[3].
--
-- The eight letters at the end of a head stand for the text of the quotas that
-- are stored: they tell whether these have changed. Callers who do not look for
-- them have '--------', and change nothing for turns that are held. A queue that
-- a caller without windows has begun has '........', as of an older text.

-- The header with the caller's windows is longer or shorter than the one there
-- is: what stands behind it moves.
local function relocate(old_size)
  local body = sub(call('GETRANGE', key, '0', '-1'), old_size + 1)
  local notes = settle()
  if notes then
    body = body .. string.rep(' ', CELLS * WIDTH - #body)
    body = sub(body, 1, CELLS * WIDTH) .. notes .. sub(body, CELLS * WIDTH + #notes + 1)
  end
  ends = math.max(ends, last + counts_for())
  return redis.pcall('PSETEX', key, format('%d', math.ceil(wait_for(ends) / 1000) + 1),
    head .. mark .. flag .. place .. ' ' .. name .. format('%16d %16d %16d\n%16d %16d %16d %16d %16d %4d %4d %16d\n',
      sequence, now, last, offset, ends, crowded, coarse, span, closed, oldest, base) .. marks .. body)
end

-- Goes by some of the windows that the queue has: what counts obeys all of them.
-- Returns false if it does not have them all.
local function go_back_to(some)
  local old_marks, kept_marks = {}, ''
  for i, window in ipairs(windows) do
    old_marks[format('%d/%d', window.most, window.length)] = sub(marks, 22 * i - 21, 22 * i)
  end
  for _, window in ipairs(some) do
    local kept_mark = old_marks[format('%d/%d', window.most, window.length)]
    if not kept_mark then return false end
    kept_marks = kept_marks .. kept_mark
  end
  windows, marks = some, kept_marks
  return true
end

-- Goes by windows that are not those of the arguments.
local function replace_arguments()
  local holds_requests = asked == argv
  as_arguments(unpack(argv, first))
  if holds_requests then asked, asked_from = argv, first end
end

-- Notes the windows of a caller, for those who look.
local MOST_LETTERS_IN_USE = 166

local function note_in_use(words)
  words = string.gsub(words, '(%d+/%d+)/%d+', '%1')
  if string.find(format('|%s|', in_use), format('|%s|', words), 1, true) then return end
  local all = in_use == '-' and words or format('%s|%s', in_use, words)
  if #all <= MOST_LETTERS_IN_USE then in_use = all end
end

obeys = ARGV[1] ~= ''
if not obeys then
  as_arguments(unpack(argv, first))
elseif ARGV[1] ~= head or coarse > now and sub(ARGV[3], -1) ~= '-' then
  local old_size, old, old_head, had_windows = size, windows, head, not is_nobodys()
  local old_words = match(head, '^fair5 (%S*) ')
  local words, stored, all = match(ARGV[1], ' (%S+) '), sub(ARGV[1], -9, -2), match(ARGV[3], '%S+$')
  if all == '-' then all = words end
  differs = had_windows and old_words ~= words and old_words ~= all
  if differs and last + counts_for() > now or coarse > now then words = all end
  changed_text = text_changes()
  must = must or changed_text and last > now -- the turns that are held get a stretch
  if differs or not go_back_to(windows_of(words)) then go_by(windows_of(words)) end
  head = format('fair5 %s %s\n', words, stored)
  p, size = #head, #head + 191 + 22 * #windows
  if head ~= ARGV[1] then replace_arguments() end
  if changed_text and had_windows then
    local words_then = { word_of('', old) }
    for i, change in ipairs(units_change) do words_then[i + 1] = word_of(change.unit, change[1]) end
    words_then = table.concat(words_then, ';')
    if words_then ~= asked_words() and (units_change[1] or not slowed) then
      add_stretch(words_then, last, last, sequence)
    end
  end
  if changed_text then pace_stretches() end
  if differs and not changed_text then
    if in_use == '-' then note_in_use(old_words) end
    note_in_use(match(ARGV[1], ' (%S+) '))
  end
  if head ~= old_head and (relocates or must) then
    local problem = relocate(old_size)
    if problem.err then return redis.error_reply(problem.err) end
    must = true
  else
    size = old_size -- the cells are still there
  end
end
