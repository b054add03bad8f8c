-- Opens the queue: reads its head and its clock. Every script begins with this part.
--
-- KEYS[1]    the head, see parse; an idle queue has none
-- KEYS[2]    the active flows, see flow.lua
-- KEYS[3]    the stored quotas
-- KEYS[4]    the log of the caller's flow
-- KEYS[5..]  the logs, see log.lua: that of calls, and one for each further unit
-- ARGV[1]    the head that the caller was told last, '' for none
-- ARGV[2]    the longest window of the caller, in microseconds
-- ARGV[3]    the names of the logs, as in 'calls,tokens'; '?' if the caller does not know them
-- ARGV[4]    the stored quotas that the caller goes by, '-' if it goes by its own
-- ARGV[5..]  what the script itself is asked
-- Returns    { 'QUOTAS', the text } if other quotas are stored: nothing is done then
-- Leaves     WITHIN, now, units, head, queue, running, clock, stop_clock_until, answer
--
-- A slot is a label on the queue's clock, which is the server's time less the
-- offset. A pause raises the offset, so that every slot comes later.

local call, format, match, max = redis.call, string.format, string.match, math.max
local HEAD, FLOWS, QUOTAS, FLOW = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local WITHIN = 1000000 -- engine.Within: for so long news need to reach everybody

local server = call('TIME')
local now, units, head = server[1] * 1000000 + server[2], #KEYS - 4, call('GET', HEAD)

if ARGV[4] ~= '-' then
  local stored = call('GET', QUOTAS) or ''
  if stored ~= ARGV[4] then return { 'QUOTAS', stored } end
end

-- The queue that a head tells of.
local function parse(text)
  local id, void, stood_at, offset, written, span, tail, total, further, names =
    match(text, '^(%d+) (%d+) (%d+) (%-?%d+) (%d+) (%d+) (%d+) (%d+)([,%d]*) (%S+)$')
  if not id then return end
  local queue = {
    id = id + 0, -- when it began, or was requeued last: turns carry it
    void = void + 0, -- 0, or the label after which turns of older ids are void: see requeue.lua
    stood_at = stood_at + 0, -- the label at which the clock stood still last: no later slot is less
    offset = offset - max(written - now, 0), -- the server's clock may have been set back since
    span = span + 0, -- the longest window of anybody who wrote it
    tail = tail + 0, -- the newest slot
    totals = { total + 0 }, -- the permits granted, of each log
    names = names, -- of the logs
  }
  if further ~= '' then -- there are further units
    for more in string.gmatch(further, '%d+') do queue.totals[#queue.totals + 1] = more + 0 end
  end
  return queue
end

local queue = parse(head or format('%d 0 0 0 0 0 0 0 ?', now))
if not queue then return redis.error_reply('STATE not the head of a queue') end
if queue.names ~= ARGV[3] and queue.names ~= '?' then return redis.error_reply('UNITS ' .. queue.names) end

-- The label whose time is now. During a pause the clock shows a later one: it stands
-- still at stood_at until stood_at + offset.
local function running() return now - queue.offset end

local function clock() return max(running(), queue.stood_at) end

-- Lets the clock stand still until a moment of the server's time. Returns false if
-- it stands for longer already.
local function stop_clock_until(moment)
  if moment <= max(now, queue.stood_at + queue.offset) then return false end
  queue.stood_at = clock()
  queue.offset = moment - queue.stood_at
  return true
end

local restored = false -- whether restore.lua has restored anything
local wrote = 0 -- 1 if the head was written, 2 if something was restored as well

-- What every script returns: the head, '' for none; the label whose time is now;
-- wrote; then what the script itself is asked for.
local function answer(all)
  all = all or {}
  all[1], all[2], all[3] = head or '', running(), wrote
  return all
end
