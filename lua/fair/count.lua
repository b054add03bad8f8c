-- Writes what has changed of the units.
--
-- Takes    what units.lua and write.lua leave
-- Leaves   sequences: '<unit>=<sequence> <unit>@=<newest slot> ...', '' if nothing
--          was written

local sequences, moved = {}, false
for i = 1, count do moved = moved or logs[i].dirty end
if told and moved then
  for i = 1, count do
    local l = logs[i]
    if l.owes then
      local texts = {}
      for _, debt in ipairs(l.owes) do
        if debt[2] > 0 and is_ahead(debt[1]) then texts[#texts + 1] = format('%16d %10d\n', debt[1], debt[2]) end
      end
      l.tags = math.min(#texts, TAGS)
      local newest = table.concat(texts, '', #texts - l.tags + 1)
      if l.tags > 0 then call('SETRANGE', units_key, l.size + CELLS * WIDTH, newest) end
    end
  end
  call('SETRANGE', units_key, '0', units_header())
end
if told and count > 0 then
  call('PEXPIRE', units_key, life)
  for i = 1, count do
    local l = logs[i]
    sequences[i] = format('%s=%d %s@=%d', l.name, l.sequence, l.name, l.last)
  end
end
sequences = table.concat(sequences, ' ')
