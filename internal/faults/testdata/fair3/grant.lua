local MOST_TURNS = 40
local MOST_HELD = 9999999999
local function slot_reaching(queue, window, need)
  local slot, total, low, high = window.last, queue.sequence, 1, count_cells(window)
  if total > need and high > 0 and total_of(window, high) >= need then
    while low < high do
      local middle = floor((low + high) / 2)
      if total_of(window, middle) >= need then high = middle else low = middle + 1 end
    end
    slot, total = slot_of(window, low), total_of(window, low)
  end
  local laps = floor((total - need) / queue.burst)
  return slot - laps * queue.interval, total - laps * queue.burst
end
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
local function total_until(queue, window, moment)
  if window.last <= moment then return queue.sequence end
  local count, low = count_cells(window), 0
  local high = count
  while low < high do
    local middle = ceil((low + high) / 2)
    if slot_of(window, middle) <= moment then low = middle else high = middle - 1 end
  end
  local total = low == 0 and window.base or total_of(window, low)
  if queue.interval == 0 then return total end
  local slot, upto = window.last, queue.sequence -- of the cell that the moment lies in
  if low < count then slot, upto = slot_of(window, low + 1), total_of(window, low + 1) end
  return max(total, upto - ceil((slot - moment) / queue.interval) * queue.burst)
end
local function fitting(queue, slot, permits, count)
  for i = 1, queue.asked do
    local window = queue[i]
    if queue.sequence + permits * count - window.most > window.base then
      local room = window.most - queue.sequence + total_until(queue, window, slot - window.length)
      count = min(count, floor(room / permits))
    end
  end
  return max(1, count)
end
local function in_a_row(queue, slot, left_to_wait, count)
  local window, spacing = queue[1], queue.spacing
  if queue[2] or window.most > 1 or window.mode == 'c' then return 0 end
  local more = max(0, min(count, floor(left_to_wait / spacing), MOST_HELD - queue.sequence + window.base))
  window.last, window.grew, queue.sequence = window.last + more * spacing, true, queue.sequence + more
  return more
end
local function is_full(queue, permits)
  for _, window in ipairs(queue) do
    if queue.sequence + permits - window.base > MOST_HELD then
      drop_passed(queue, window)
      if queue.spacing > 0 and not queue[2] and count_cells(window) == 0 and not window.behind and window.last > 0 then
        local ahead = ceil((window.last + window.length - queue.now) / queue.spacing)
        window.base = max(window.base, queue.sequence - ahead)
      end
      if queue.sequence + permits - window.base > MOST_HELD then return true end
    end
  end
  return false
end
local function grant_some(queue, tail, permits, longest, count, mixed)
  local slot = earliest(queue, tail, permits, count)
  local wait, together, step = slot - queue.now, 1, 0
  if not (slot < 2 ^ 52) then damaged() end
  if wait > longest then return wait, mixed and -1 or -count, 0, tail end
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
  if count > together and queue.spacing > 0 and permits == 1 then
    local more = in_a_row(queue, slot, longest - wait, count - together)
    if more > 0 then slot, together, step = slot + more * queue.spacing, together + more, queue.spacing end
  end
  compact_full(queue, slot)
  return wait, together, step, slot
end
local function grant(queue)
  local reply, size, granted, turns = { '' }, 1, false, 0
  local tail = after_what_was_lost(queue, max(queue.now, (bounds(queue))))
  for i = 7, #ARGV, 3 do
    local permits, longest, count = ARGV[i] + 0, ARGV[i + 1] + 0, ARGV[i + 2] + 0
    local mixed, first = count < 0, true
    if mixed then count = -count end
    while count > 0 do
      local wait, together, step, slot = grant_some(queue, tail, permits, longest, count, mixed)
      if mixed and not first and together < 0 then return reply, granted end
      reply[size + 1], reply[size + 2], reply[size + 3] = wait, together, step
      size, tail, first, turns = size + 3, slot, false, turns + #queue
      granted = granted or together > 0
      count = count - math.abs(together)
      if turns >= MOST_TURNS or mixed and together < 0 then return reply, granted end
    end
  end
  return reply, granted
end
