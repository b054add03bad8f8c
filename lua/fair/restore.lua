-- Restores what the server has lost. The caller brings the head that it was told
-- last. If that head knows of permits, a pause or a requeue that the server does not,
-- a server has lost them, or an old copy has become the primary.
--
-- Reads      now, head, the queue, the logs and their functions
-- Leaves     restored: whether anything was

local restored = false
local told = ARGV[1] ~= '' and ARGV[1] ~= head and parse(ARGV[1])

if told then
  told.offset = told.offset - max(told.last - now, 0) -- the server's clock was set back since
  local counts = max(told.tail + told.span, told.from) + told.offset > now
  local was_requeued = told.id < queue.id and queue.void > 0
  if not counts or was_requeued then told = nil end
end

if told and not head then
  queue.id, queue.void, queue.from, queue.offset, restored = told.id, told.void, told.from, told.offset, true
end

if told then
  queue.span = max(queue.span, told.span)

  -- A later pause than the server knows of. An old copy goes by the caller's clock. A
  -- queue that others have begun since stands still for as long.
  local paused_until = told.from + told.offset
  if told.id == queue.id and told.from > queue.from then
    queue.from, queue.offset, restored = told.from, told.offset, true
  elseif told.id ~= queue.id and paused_until > max(now, queue.from + queue.offset) then
    queue.from = clock()
    queue.offset = paused_until - queue.from
    restored = true
  end

  -- Permits that the server does not know of count at the newest slot that the caller
  -- knows of. In another queue that is another label.
  local slot = max(told.tail + (told.id == queue.id and 0 or told.offset - queue.offset), queue.tail)
  for u, log in ipairs(logs) do
    local missing = ARGV[4 + u] - log.total
    if missing > 0 then
      book(log, slot, missing)
      queue.tail, restored = slot, true
    end
  end

  -- A requeue that the server does not know of holds. Else a queue that others have
  -- begun since goes on as the older one, if slots mean the same in both: its turns can
  -- still be given back.
  if told.id > queue.id and told.void > 0 then
    queue.id, queue.void, restored = told.id, told.void, true
  elseif told.id < queue.id and told.offset == queue.offset then
    queue.id = told.id
  end
end
