-- Finds slots and grants them.
--
-- Takes    what write.lua leaves
-- Leaves   grant, earliest, total_until

-- The most that one run grants in turns times windows. Each takes up to 10 µs,
-- a cell and its share of the compactions, so that a run holds the server for
-- less than a millisecond (promise 6, the script's time) on a slow machine.
local MOST_TURNS = 40

-- The most permits that a window counts.
local MOST_HELD = 9999999999

-- The moment by which the running total reaches need, which it does, and how
-- far it reaches at that moment.
local function slot_reaching(queue, window, need)
  local slot, total, low, high = window.last, queue.sequence, 1, count_cells(window)
  if total > need and high > 0 and total_of(window, high) >= need then
    while low < high do
      local middle = math.floor((low + high) / 2)
      if total_of(window, middle) >= need then high = middle else low = middle + 1 end
    end
    slot, total = slot_of(window, low), total_of(window, low)
  end
  local laps = math.floor((total - need) / queue.burst)
  return slot - laps * queue.interval, total - laps * queue.burst
end

-- The earliest slot from the tail on at which every window has room for one of
-- so many requests. In each it notes how far there is room at that slot.
local function earliest(queue, tail, permits, count)
  local slot = tail
  for i = 1, queue.asked do
    local window = queue[i]
    local need = queue.sequence + permits - window.most
    window.next_room = window.room
    if queue.sequence + permits * count > window.room then
      if need > window.base then drop_passed(queue, window) end
      local leaves, upto = 0, window.base
      if need > window.base then
        leaves, upto = slot_reaching(queue, window, need)
        leaves = leaves + window.length
      end
      if leaves > slot then slot = leaves end
      window.next_room = window.most > 1 and upto + window.most or 0
    end
  end
  return slot
end

-- The running total at the moment.
local function total_until(queue, window, moment)
  if window.last <= moment then return queue.sequence end
  local count, low = count_cells(window), 0
  local high = count
  while low < high do
    local middle = math.ceil((low + high) / 2)
    if slot_of(window, middle) <= moment then low = middle else high = middle - 1 end
  end
  local total = low == 0 and window.base or total_of(window, low)
  if queue.interval == 0 then return total end
  local slot, upto = window.last, queue.sequence -- of the cell that the moment lies in
  if low < count then slot, upto = slot_of(window, low + 1), total_of(window, low + 1) end
  return math.max(total, upto - math.ceil((slot - moment) / queue.interval) * queue.burst)
end

-- How many equal requests fit at the slot, the first of which does.
local function fitting(queue, slot, permits, count)
  for i = 1, queue.asked do
    local window = queue[i]
    if queue.sequence + permits * count - window.most > window.base then
      local room = window.most - queue.sequence + total_until(queue, window, slot - window.length)
      count = math.min(count, math.floor(room / permits))
    end
  end
  return math.max(1, count)
end

-- Grants single permits one spacing apart behind the slot, where nothing but
-- the spacing holds them back: in a queue for one permit at a time. Returns how
-- many.
local function in_a_row(queue, slot, left_to_wait, count)
  local window, spacing = queue[1], queue.spacing
  if queue[2] or window.most > 1 or window.mode == 'c' then return 0 end
  local fit = MOST_HELD - queue.sequence + window.base
  local more = math.max(0, math.min(count, math.floor(left_to_wait / spacing), fit))
  window.last, window.grew, queue.sequence = window.last + more * spacing, true, queue.sequence + more
  return more
end

-- Whether no window can count so many more.
local function is_full(queue, permits)
  for _, window in ipairs(queue) do
    if queue.sequence + permits - window.base > MOST_HELD then
      drop_passed(queue, window)
      if queue.spacing > 0 and not queue[2] and count_cells(window) == 0 and not window.behind and window.last > 0 then
        -- What has passed of the one row is not held any more.
        local ahead = math.ceil((window.last + window.length - queue.now) / queue.spacing)
        window.base = math.max(window.base, queue.sequence - ahead)
      end
      if queue.sequence + permits - window.base > MOST_HELD then return true end
    end
  end
  return false
end

-- Grants what fits of one run of equal requests: returns how far ahead of the
-- clock the slot of the first is, how many have the same answer (negative:
-- refused), how much further each is than the one before, and the slot of the
-- last. A row needs a clock that runs as the server's does, up to each slot.
local function grant_some(queue, tail, permits, longest, count, mixed)
  local slot = earliest(queue, tail, permits, count)
  local ahead, together, step = slot - queue.now, 1, 0
  local wait = queue.slow_until > 0 and wait_for(queue, slot) or queue.rest + ahead
  if not (slot < 2 ^ 52) then damaged() end
  if wait > longest then return ahead, mixed and -1 or -count, 0, tail end
  if count > 1 then together = fitting(queue, slot, permits, count) end
  if is_full(queue, permits * together) then
    if together > 1 then return grant_some(queue, tail, permits, longest, 1, mixed) end
    return -1, -1, 0, tail
  end
  for i = 1, #queue do
    queue[i].room = queue[i].next_room or 0
    add(queue, queue[i], slot, permits * together)
  end
  queue.sequence = queue.sequence + permits * together
  if count > together and queue.spacing > 0 and permits == 1 and slot >= queue.slow_until then
    local more = in_a_row(queue, slot, longest - wait, count - together)
    if more > 0 then slot, together, step = slot + more * queue.spacing, together + more, queue.spacing end
  end
  compact_full(queue, slot)
  return ahead, together, step, slot
end

-- Works off the runs of requests from ARGV[7] on. Returns the answers as
-- triples, behind two places for texts, and whether anything was granted. What
-- is unanswered is for the next call.
local function grant(queue)
  local reply, size, granted, turns = { '', '' }, 2, false, 0
  local tail = after_what_was_lost(queue, math.max(queue.now, (bounds(queue))))
  for i = 7, #ARGV, 3 do
    local permits, longest, count = ARGV[i] + 0, ARGV[i + 1] + 0, ARGV[i + 2] + 0
    local mixed, first = count < 0, true
    if mixed then count = -count end
    while count > 0 do
      local ahead, together, step, slot = grant_some(queue, tail, permits, longest, count, mixed)
      if mixed and not first and together < 0 then return reply, granted end
      reply[size + 1], reply[size + 2], reply[size + 3] = ahead, together, step
      size, tail, first, turns = size + 3, slot, false, turns + #queue
      granted = granted or together > 0
      count = count - math.abs(together)
      if turns >= MOST_TURNS or mixed and together < 0 then return reply, granted end
    end
  end
  return reply, granted
end
