-- Restores what the server has lost. The caller brings the head that it was told
-- last, ARGV[1] of open.lua. It tells of
--
--   - this queue, if others were granted turns since, or an old copy is the primary;
--   - another one, if all was lost and others have begun this queue since;
--   - the only one, if all was lost and nobody has asked since.
--
-- Reads      now, head, queue, stop_clock_until, logs, book
-- Leaves     queue, restored

-- The caller's queue, as far as it still counts and was not requeued since.
local told = ARGV[1] ~= '' and ARGV[1] ~= head and parse(ARGV[1])

if told then
  local counts_until = max(told.tail + told.span, told.stood_at) + told.offset
  local was_requeued = told.id < queue.id and queue.void > 0
  if counts_until <= now or was_requeued then told = nil end
end

if told then
  if not head then queue, restored = told, true end -- its permits are booked below
  local is_same = told.id == queue.id
  queue.span = max(queue.span, told.span)

  -- A pause. The same queue goes on by the caller's clock. In another one slots mean
  -- other times, so it only stands still for as long.
  if not is_same then
    restored = stop_clock_until(told.stood_at + told.offset)
  elseif told.stood_at > queue.stood_at then
    queue.stood_at, queue.offset, restored = told.stood_at, told.offset, true
  end

  -- Permits count at the newest slot of both.
  local slot = max(told.tail + (is_same and 0 or told.offset - queue.offset), queue.tail)
  for u = 1, told.names == ARGV[3] and units or 1 do
    local missing = told.totals[u] - logs[u].total
    if missing > 0 then
      book(logs[u], slot, missing)
      queue.tail, restored = slot, true
    end
  end

  -- A requeue. Without one, another queue goes on as the older of both if slots mean
  -- the same: so turns of before can still be given back.
  if told.id > queue.id and told.void > 0 then
    queue.id, queue.void, restored = told.id, told.void, true
  elseif told.id < queue.id and told.offset == queue.offset then
    queue.id = told.id
  end
end
