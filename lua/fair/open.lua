-- Opens the queue: reads its head and its clock.
--
-- KEYS[1]    the head, see parse; there is none if nothing counts
-- KEYS[2..]  the logs, see log.lua: that of calls, and one for each further unit
-- FLOWS, QUOTAS, FLOW  the last keys: the active flows, see flow.lua; the stored
--            quotas; the log of the caller's flow
-- ARGV[1]    the head that the caller was told last, '' for none
-- ARGV[2]    the longest window of the caller, in microseconds
-- ARGV[3]    the units, as in 'calls,tokens'; '?' if the caller does not know them
-- ARGV[4]    the stored quotas that the caller goes by, '-' if it goes by its own
-- ARGV[5..]  the total of each log that the caller was told last, 0 for none
-- REST       the first argument behind these
-- Returns    { 'QUOTAS', the text } if other quotas are stored: nothing is done then
--
-- A slot is a label on the queue's clock, which is the server's time less the
-- offset. A pause raises the offset, so that every slot comes later.

local call, format, match, max = redis.call, string.format, string.match, math.max

local server = call('TIME')
local now, head, units = server[1] * 1000000 + server[2], call('GET', KEYS[1]), #KEYS - 4
local FLOWS, QUOTAS, FLOW, REST = KEYS[units + 2], KEYS[units + 3], KEYS[units + 4], 5 + units

if ARGV[4] ~= '-' then
  local stored = call('GET', QUOTAS) or ''
  if stored ~= ARGV[4] then return { 'QUOTAS', stored } end
end

-- A queue, as its head has it.
local function parse(text)
  local id, void, from, offset, last, span, tail, total, names =
    match(text, '^(%d+) (%d+) (%d+) (%-?%d+) (%d+) (%d+) (%d+) (%d+) (%S+)$')
  return id and {
    id = id + 0, -- when it began, or was requeued last: turns carry it
    void = void + 0, -- 0, or the label after which turns of older ids are void: see requeue.lua
    from = from + 0, -- the label at which the clock stood still last: no slot is older
    offset = offset + 0,
    last = last + 0, -- the server's time when the head was written
    span = span + 0, -- the longest window of anybody who was granted a turn
    tail = tail + 0, -- the newest slot
    total = total + 0, -- the permits granted: the total of the log of calls
    units = names,
  }
end

local queue
if head then
  queue = parse(head)
  if not queue then return redis.error_reply('STATE not the head of a queue') end
  if queue.units ~= ARGV[3] and queue.units ~= '?' then return redis.error_reply('UNITS ' .. queue.units) end
  if now < queue.last then queue.offset = queue.offset - (queue.last - now) end -- the server's clock was set back
else
  queue = { id = now, void = 0, from = 0, offset = 0, last = now, span = 0, tail = 0, total = 0 }
end
queue.span = max(queue.span, ARGV[2] + 0)

-- What the queue's clock shows. It stands still at from until from + offset.
local function clock() return max(now - queue.offset, queue.from) end
