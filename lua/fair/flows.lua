-- The flows that use the queue, and what each may hold ahead.
--
-- Takes    what grant.lua leaves
-- Leaves   read_flows, enter, share_out, note_grant, write_flows
--
-- An entry is one process of one flow: id (5 letters of the flow, 3 of the
-- process), weight, need (the most permits that one of its requests asks for),
-- and until when it is active: some grace longer than it holds a turn ahead. A
-- flow whose only turn has just passed is asking for the next: without the
-- grace the others would take its place meanwhile.

-- "The flows' 2 KB": as many entries, and as many bytes.
local MOST_FLOWS = 64
local MOST_FLOWS_BYTES = 2000

-- The entries that are active, in groups: those of one flow.
local function group_of(flows, id)
  local flow = sub(id, 1, 5)
  local group = flows.groups[flow]
  if not group then
    group = { need = 0, weight = 0 }
    flows.groups[flow], flows.groups[#flows.groups + 1] = group, group
  end
  return group
end

local function new_entry(flows, id)
  local group = group_of(flows, id)
  local entry = { id = id, need = 0, ends = 0, group = group, rank = #group + 1 }
  flows[#flows + 1], flows[id], group[entry.rank] = entry, entry, entry
  return entry
end

local function read_flows(queue)
  local flows = { bytes = 0, groups = {} }
  for id, weight, need, ends in string.gmatch(queue.flows, '(%w+)/(%d+)/(%d+)/(%d+)') do
    if number(ends) > queue.now then
      local entry = new_entry(flows, id)
      flows.bytes = flows.bytes + #id + #weight + #need + #ends + 4
      entry.need, entry.ends, entry.group.weight = number(need), ends + 0, number(weight)
      if #id ~= 8 or entry.group.weight == 0 or entry.need == 0 then damaged() end
    end
  end
  return flows
end

local function digits(n) return #format('%d', n) end

-- Enters one who asks, and returns its entry. The newest weight of a flow holds
-- for all its processes. Where there is no place for one more, it shares the
-- entry of another. Where there is none for a longer number, an entry stays as
-- it is.
local function enter(flows, id, weight, need)
  local entry, group = flows[id], flows.groups[sub(id, 1, 5)]
  if entry and entry.need == need and group.weight == weight then return entry end
  local bytes = entry and digits(need) - digits(entry.need) or #format('%s/%d/%d/%d ', id, weight, need, 2 ^ 52)
  if group then bytes = bytes + #group * (digits(weight) - digits(group.weight)) end
  if not entry and #flows >= MOST_FLOWS or bytes > 0 and flows.bytes + bytes > MOST_FLOWS_BYTES then
    return entry or flows[tonumber(sub(id, 1, 5), 36) % #flows + 1]
  end
  entry = entry or new_entry(flows, id)
  entry.need, entry.group.weight = need, weight
  flows.bytes = flows.bytes + bytes
  return entry
end

local function common_divisor(a, b)
  while b > 0 do
    local rest = a % b
    a = b
    b = rest
  end
  return a
end

-- Shares a look-ahead of so many permits out among all who are active: returns
-- what one permit of weight is worth. Weights count in lowest terms, so that
-- shares are in just their proportion where the look-ahead suffices for that.
-- Each process can make at least one of its requests, and the others have more
-- then: shares stay in proportion, and the look-ahead becomes longer.
local function share_out(flows, ahead)
  local sum, divisor = 0, 0
  for _, group in ipairs(flows.groups) do
    sum, divisor = sum + group.weight, common_divisor(group.weight, divisor)
  end
  for _, entry in ipairs(flows) do
    entry.group.need = entry.group.need + entry.need
  end
  local worth = ahead / (sum / divisor)
  if worth >= 1 then worth = math.floor(worth) end
  for _, group in ipairs(flows.groups) do
    local least = group.need / (group.weight / divisor)
    if least >= 1 then least = math.ceil(least) end
    worth = math.max(worth, least)
  end
  return worth / divisor
end

-- How many permits a process of a flow may hold ahead: its part of the flow's
-- share, without a rest.
local function share_of(entry, weight, worth)
  local members = #entry.group
  local share = math.floor(worth * weight + 0.5)
  local part = math.floor(share / members)
  if entry.rank <= share - part * members then part = part + 1 end
  return math.max(1, part)
end

-- Notes that an entry holds a turn at the slot.
local function note_grant(entry, slot, grace)
  entry.ends = math.max(entry.ends, 10000 * math.ceil((slot + grace) / 10000))
end

-- Those who hold nothing have no entry.
local function write_flows(queue, flows)
  local lines, ends = {}, 0
  for _, entry in ipairs(flows) do
    if entry.ends > 0 then
      lines[#lines + 1] = format('%s/%d/%d/%d', entry.id, entry.group.weight, entry.need, entry.ends)
      ends = math.max(ends, entry.ends)
    end
  end
  queue.flows, queue.flows_end = table.concat(lines, ' '), ends
end
