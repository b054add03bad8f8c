local function extends(queue, window, slot, permits)
  local last = window.last
  if window.mode == 'c' then
    window.moments = window.moments + 1
    if slot < window.until_slot then
      if last <= queue.now and slot < window.bound then return true end
    elseif window.moments > MOST_MOMENTS + 1 then
      window.until_slot, window.moments = slot + window.length, 1
    else
      window.mode, window.grew = '.', true
      return false
    end
    window.bound, window.grew = min(bound_of(window, slot), window.until_slot), true
    return false
  end
  window.grew = true
  return permits == 1 and queue.spacing > 0 and slot == last + queue.spacing
end
local function add(queue, window, slot, permits)
  local last = window.last
  if last > 0 and last < slot and not extends(queue, window, slot, permits) then
    drop_passed(queue, window)
    if window.most > 1 then window.room = max(window.room, window.base + window.most) end
    local closed = window.closed
    if window.last > 0 then closed[#closed + 1], closed[#closed + 2] = last, queue.sequence end
  end
  if last < slot then window.last = slot end
end
