-- The flows that use the queue, and what each may hold ahead.
--
-- asked[asked_from]  grace: how long a flow is active after its newest slot
-- then look-ahead: how many permits all flows together hold ahead
-- then how many they hold ahead at least, so that the queue does not run dry
--      while questions are under way
-- then how many flows ask
-- then for each of them: id (5 letters of the flow, 3 of the process), weight,
--          need (the most permits of one of its requests), wants (how many its
--          callers want or hold), how many it holds ahead, where its entry was
--          last, from 0 on, and two more for ceiling.lua
--
-- A turn of several units is as many permits as that of its units which takes the
-- most of its quota: its cost, see amounts.lua.
--
-- Takes    what open.lua leaves, or what is unusual
-- Leaves   asking: for each flow share, held, place (of its entry), ends and, if
--          all were read, entry; list: the entries if all were read; pace; first
--          and asked_from, the next argument; ENTRY, entries_at, grace
--
-- An entry is one process of one flow, with its share ready, so that usually
-- one is read. All of them are read only when one comes, changes or is over. A
-- flow whose only turn has just passed is asking for the next: without the grace
-- the others would take its place meanwhile. An entry is 81 bytes:
--
--   v4rrg00a    1          1          7 1700000000630000          4 1700000000630000
--   id     weight       need      wants ends                  share earliest end

local ENTRY, MOST_ENTRIES, ASKS = 81, 64, 8
local entries_at, askers, asker = size + CELLS * WIDTH + NOTES, asked[asked_from + 3] + 0, asked_from + 4
local grace, most_ahead, least_ahead, list =
  asked[asked_from] + 0, asked[asked_from + 1] + 0, asked[asked_from + 2] + 0, nil
asking = {}

-- Each entry that is still as the flow's process asks. If its callers want a
-- little less, it stays.
for i = 1, askers do
  local at = asker + ASKS * i - ASKS
  local id, weight, need, wants, own = asked[at], asked[at + 1], asked[at + 2], asked[at + 3] + 0, asked[at + 5] + 0
  local from = entries_at + own * ENTRY
  local entry = flag ~= ' ' and call('GETRANGE', key, from, from + ENTRY - 1) or ''
  local wanted, ends_at, share, earliest = match(entry, '^ *(%d+) +(%d+) +(%d+) +(%d+)\n$', 25)
  if not share or share + 0 < 1 or earliest + 0 <= now then break end
  if flag == 'M' and sub(entry, 1, 8) ~= id then -- it has none
    share, ends_at = need, 2 ^ 52
  elseif sub(entry, 1, 24) ~= format('%8s %4d %10d', id, weight, need)
      or wants > wanted + 0 or 2 * wants <= wanted + 0 then
    break
  end
  asking[i] = { share = share + 0, held = asked[at + 4] + 0, place = own, ends = ends_at + 0 }
end

-- Else all shares are worked out anew. They are in proportion to the weights. No
-- flow holds more ahead than the one with the fewest callers can keep up with:
-- else it would have to wait for all of that after each of its turns. Together
-- they hold at most the look-ahead, and what they need to be asking in time.
-- Each process can make at least one of its requests, and the others have more
-- then. The processes of a flow divide its share. A flow alone has it all.
--
-- If there are more processes than entries, each holds one request ahead, or as
-- many as its weight wants: so a newcomer waits for that of each.
if #asking < askers then
  local all, groups = flag ~= ' ' and call('GETRANGE', key, entries_at, '-1') or '', {}
  local sum, divisor, many = 0, 0, false
  asking, list = {}, { stood = floor(#all / ENTRY) }
  for i = 1, list.stood do
    local id, weight, need, wants, over = match(sub(all, i * ENTRY - ENTRY + 1, i * ENTRY - 29),
      '^(%w%w%w%w%w%w%w%w) +(%d+) +(%d+) +(%d+) +(%d+)$')
    if id and over + 0 > now and over + 0 < 2 ^ 52 and weight + 0 >= 1 and math.max(weight, need) <= 1000000000 then
      list[#list + 1] = { id = id, weight = weight + 0, need = need + 0, wants = wants + 0, ends = over + 0 }
      list[id] = list[#list]
    end
  end
  for i = 1, askers do
    local at = asker + ASKS * i - ASKS
    local id, wants = asked[at], asked[at + 3] + 0
    local entry = list[id]
    if not entry and #list < MOST_ENTRIES then
      entry = { id = id, wants = 0, ends = 0 }
      list[#list + 1], list[id] = entry, entry
    end
    if entry then
      entry.weight, entry.need = asked[at + 1] + 0, asked[at + 2] + 0
      if wants > entry.wants or 2 * wants <= entry.wants then entry.wants = wants end
    end
    many = many or not entry
    asking[i] = { entry = entry, held = asked[at + 4] + 0, share = asked[at + 2] + 0, ends = 2 ^ 52 }
  end
  many = #list >= MOST_ENTRIES and (many or flag == 'M')
  for _, entry in ipairs(list) do
    local flow = sub(entry.id, 1, 5)
    local group = groups[flow]
    if not group then
      group = { weight = entry.weight, need = 0, wants = 0, members = 0 }
      groups[flow], groups[#groups + 1] = group, group
    end
    for i = 1, askers do -- the newest weight of a flow holds for all its processes
      local at = asker + ASKS * i - ASKS
      if sub(asked[at], 1, 5) == flow then group.weight = asked[at + 1] + 0 end
    end
    group.need, group.wants = group.need + entry.need, group.wants + entry.wants
    group.members, entry.group = group.members + 1, group
    entry.rank = group.members
  end
  for _, group in ipairs(groups) do
    local a, b = group.weight, divisor
    while b > 0 do
      local rest_of = a % b
      a = b
      b = rest_of
    end
    sum, divisor = sum + group.weight, a
  end
  local worth, least_worth = most_ahead / (sum / divisor), least_ahead / (sum / divisor)
  if #groups > 1 then
    for _, group in ipairs(groups) do worth = math.min(worth, math.ceil(group.wants / (group.weight / divisor))) end
    worth = math.max(worth, least_worth)
  end
  if many then worth = 0 end
  if worth >= 1 then worth = floor(worth) end
  for _, group in ipairs(groups) do
    local least = group.need / (group.weight / divisor)
    if least >= 1 then least = math.ceil(least) end
    worth = math.max(worth, least)
  end
  for _, entry in ipairs(list) do
    local share = floor(worth / divisor * entry.group.weight + 0.5)
    local part = floor(share / entry.group.members)
    if entry.rank <= share - part * entry.group.members then part = part + 1 end
    entry.share = math.max(1, part)
  end
  for _, flow in ipairs(asking) do
    if flow.entry then flow.share, flow.ends = flow.entry.share, flow.entry.ends end
  end
  list.flag = many and 'M' or #groups > 1 and 'F' or 'f'
end

-- Beside other flows turns come evenly. Else the permits of a whole length would
-- be gone before a flow with a single caller can ask again.
if match(list and list.flag or flag, '[FM]') then pace = floor(argv[windows_end - 1] / argv[windows_end - 2]) end
asked_from = asker + ASKS * askers
if asked == argv then first = asked_from end
