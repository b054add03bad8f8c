-- Writes the entries of the flows that ask, and tells what they may hold.
--
-- Takes    what flows.lua, active.lua and write.lua leave
-- Leaves   in asking: words, for the reply: for each flow that asks, how many
--          permits it may hold ahead, where its entry is, up to how many its
--          ceiling counted, and the ceiling, '-' if it has none

local words_of = {}
if list and told then
  -- Those who hold nothing have no entry. If there are some, the next to come
  -- works the shares out anew.
  local entry_words, earliest = {}, 2 ^ 52
  for _, entry in ipairs(list) do
    earliest = math.min(earliest, entry.ends)
    if entry.ends > 0 then
      entry.place = #entry_words
      entry_words[#entry_words + 1] = format('%8s %4d %10d %10d %16d %10d ', entry.id, entry.group.weight, entry.need,
        entry.wants, entry.ends, entry.share)
    end
  end
  local last_word = format('%16d\n', earliest)
  for i = 1, #entry_words do entry_words[i] = entry_words[i] .. last_word end
  for i = #entry_words + 1, list.stood do entry_words[i] = string.rep(' ', ENTRY - 1) .. '\n' end
  call('SETRANGE', key, entries_at, table.concat(entry_words))
end
for i, flow in ipairs(asking) do
  if told and flow.grew and not list then
    call('SETRANGE', key, entries_at + flow.place * ENTRY + 36, format('%16d', flow.ends))
  end
  words_of[i] = format('%d %d %d %s', flow.share, flow.entry and flow.entry.place or flow.place or 0,
    flow.log and flow.log.total or 0, flow.log and flow.log.words or '-')
end
asking.words = table.concat(words_of, ' ')
