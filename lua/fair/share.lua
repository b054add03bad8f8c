-- Takes permits for flows, up to the share of each.
--
-- KEYS, ARGV[1..]  see head.lua, flows.lua and grant.lua
--
-- Returns  { text, news, shares, then answers }: as take.lua. The shares are a
--          text: for each flow that asks, how many permits it may hold ahead,
--          where its entry is, up to how many its ceiling counted, and the
--          ceiling, '-' if it has none
-- Errors   STATE: the key holds something else. Nothing was changed.

local shares = {}
if list and told then
  -- Those who hold nothing have no entry. If there are some, the next to come
  -- works the shares out anew.
  local lines, earliest = {}, 2 ^ 52
  for _, entry in ipairs(list) do
    earliest = math.min(earliest, entry.ends)
    if entry.ends > 0 then
      entry.place = #lines
      lines[#lines + 1] = format('%8s %4d %10d %10d %16d %10d ', entry.id, entry.group.weight, entry.need,
        entry.wants, entry.ends, entry.share)
    end
  end
  local last_word = format('%16d\n', earliest)
  for i = 1, #lines do lines[i] = lines[i] .. last_word end
  for i = #lines + 1, list.stood do lines[i] = string.rep(' ', ENTRY - 1) .. '\n' end
  call('SETRANGE', key, entries_at, table.concat(lines))
end
for i, flow in ipairs(asking) do
  if told and flow.grew and not list then
    call('SETRANGE', key, entries_at + flow.place * ENTRY + 36, format('%16d', flow.ends))
  end
  shares[i] = format('%d %d %d %s', flow.share, flow.entry and flow.entry.place or flow.place or 0,
    flow.log and flow.log.total or 0, flow.log and flow.log.words or '-')
end

local text_of = told and told .. format(' %d 0', offset) or ''
if unusual and not told then text_of = name .. format('%16d %16d %16d %d 0', sequence, clock, last, offset) end
local reply = { text_of, unusual and news() or '', table.concat(shares, ' '), ahead, together, step }
for i = 6, 3 * groups + 2 do reply[i + 1] = answers[i] end
return reply
