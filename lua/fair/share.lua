-- Takes permits for flows: works requests off in order, up to the share of each
-- flow.
--
-- KEYS, ARGV[1..3]  see head.lua
-- ARGV[4]  the grace of flows.lua
-- ARGV[5]  the look-ahead: how many permits all flows together hold ahead
-- ARGV[6]  how many flows ask
-- ARGV[7..]  for each of them: id, weight, how many permits it holds ahead, the
--          most permits of one of its requests
-- then     for each run of requests of one flow for equally many permits: the
--          flow, from 1 on, and as ARGV[7..9] of take.lua
--
-- Returns  { text, news, shares, then answers }: as take.lua, but the answers of
--          requests that go over the share are refused and -2 ahead. The shares
--          are a text: how many permits each flow may hold ahead
-- Errors   STATE: the key holds something else. Nothing was changed.

local queue = read()
local noted, lost = begin(queue)
local grace, askers = ARGV[4] + 0, ARGV[6] + 0

-- Those who ask, with their shares.
local function shares_of(flows)
  local asking, texts = {}, {}
  for i = 1, askers do
    local at = 3 + 4 * i
    local flow = { weight = ARGV[at + 1] + 0, held = ARGV[at + 2] + 0 }
    flow.entry = enter(flows, ARGV[at], flow.weight, ARGV[at + 3] + 0)
    asking[i] = flow
  end
  local worth = share_out(flows, ARGV[5] + 0)
  for i, flow in ipairs(asking) do
    flow.share = share_of(flow.entry, flow.weight, worth)
    texts[i] = format('%d', flow.share)
  end
  return asking, table.concat(texts, ' ')
end

-- How many requests for so many permits a flow has room for: one if it holds
-- nothing. None goes before one that had no room.
local function room_of(flow, permits)
  if flow.full then return 0 end
  local room = math.floor((flow.share - flow.held) / permits)
  if flow.held == 0 then return math.max(1, room) end
  return math.max(0, room)
end

local flows = read_flows(queue)
local asking, shares = shares_of(flows)
local reply, granted, turns = { '', '', shares }, false, 0
local tail = after_what_was_lost(queue, math.max(queue.now, (bounds(queue))))

local function answer(ahead, count, step)
  local size = #reply
  reply[size + 1], reply[size + 2], reply[size + 3] = ahead, count, step
end

-- Works off one run. Returns whether all of it is answered.
local function grant_run(flow, permits, longest, count)
  local mixed, first = count < 0, true
  count = math.abs(count)
  while count > 0 do
    local room = math.min(count, room_of(flow, permits))
    if room == 0 then
      flow.full = true
      answer(-2, -count, 0)
      return true
    end
    local ahead, together, step, slot = grant_some(queue, tail, permits, longest, room, mixed)
    if mixed and not first and together < 0 then return false end
    if together < 0 and ahead >= 0 and not mixed then together = -count end
    answer(ahead, together, step)
    turns, first, count, tail = turns + #queue, false, count - math.abs(together), slot
    if together > 0 then
      flow.held, granted = flow.held + permits * together, true
      note_grant(flow.entry, slot, grace)
    end
    if turns >= MOST_TURNS or mixed and together < 0 then return false end
  end
  return true
end

for i = 7 + 4 * askers, #ARGV, 4 do
  if not grant_run(asking[ARGV[i] + 0], ARGV[i + 1] + 0, ARGV[i + 2] + 0, ARGV[i + 3] + 0) then break end
end
if granted or noted or lost then
  write_flows(queue, flows)
  local text, _, problem = write(queue)
  if problem then return problem end
  reply[1] = text
end
if not is_quiet(queue) then reply[2] = news_of(queue) end
return reply
