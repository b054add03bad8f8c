-- The usual request, straight through: one run of requests to a queue of one
-- window that has lost nothing and has nothing to remember. What is unusual
-- falls through to the parts behind, which come to the same replies and the
-- same states: a test compares them.
--
-- ARGV[4]  most permits   ARGV[5]  length of the window
-- ARGV[6]  ms that the key has to live if the newest slot is now
-- ARGV[7]  permits   ARGV[8]  longest wait   ARGV[9]  requests: see take.lua
--
-- Takes    what open.lua leaves
-- Returns  as take.lua
--
-- A plain state has fixed places, behind its head, which is p long, and
-- before its end:
--
--   p+1..16    base       p+40..55  bound      -59..-52  generation
--   p+18..33   origin     p+57..72  until      -50..-35  sequence
--   p+35, 36   digits     p+74..76  moments    -33..-18  clock
--   p+38       mode                            -16..-1   newest slot
--
-- The middle ones are there only while the mode is 'c'. Then come ':' and the
-- cells, up to the end of the line. A histogram and silences may follow, each
-- in a line of its own; they stay as they are, as long as the state is too short
-- to be compacted and no cell has passed that a histogram stands behind.

local p = #head
while ARGV[9] and not ARGV[10] and state and left > 0 and #state < 2750 and sub(state, 1, p) == head do
  -- What the caller saw must be of this history, and the clock must have gone
  -- on, for less than a silence.
  if seen ~= '' and seen ~= sub(state, -59, -18) and not (sub(seen, 1, 9) == sub(state, -59, -51)
    and sub(seen, 10, 25) <= sub(state, -50, -35) and sub(seen, 27) <= sub(state, -33, -18)) then break end
  local sequence, silence, last = sub(state, -50, -35) + 0, server - sub(state, -33, -18), sub(state, -16) + 0
  if not (silence >= 0 and silence < 100000 and sequence < 2 ^ 52 and last < 2 ^ 52) then break end

  local now, length, slot, permits, text = server, ARGV[5] + 0, server, ARGV[7] + 0, nil
  local mode, most, base = sub(state, p + 38, p + 40), nil, nil
  if ARGV[9] ~= '1' then
    if ARGV[9] + 0 < 1 then break end
    permits = permits * ARGV[9]
  end

  if mode == 'r:\n' and last + length > now then
    -- One permit at a time, and the newest cell is a row: the row goes on.
    slot = last + length * permits
    if slot - now > ARGV[8] + 0 then
      if permits > 1 then break end
      return slot - now
    end
    text = sub(state, 1, -51)
  else
    most, base = ARGV[4] + 0, sub(state, p + 1, p + 16) + 0
    if not (base <= sequence) then break end
  end

  if text then -- found
  elseif last <= now and sequence + permits - most <= base
    and sub(mode, 1, 1) == 'c' and now < sub(state, p + 40, p + 55) + 0 then
    -- Crowded, and the newest cell takes them too.
    local moments = sub(state, p + 74, p + 76)
    if moments == '131' or last == now then
      text = sub(state, 1, -51)
    else
      text = sub(state, 1, p + 73) .. format('%3d', moments + 1) .. sub(state, p + 77, -51)
    end
  else
    -- What has left the window goes.
    local start = sub(mode, 1, 1) == 'c' and p + 78 or p + 40
    local finish, at, origin = string.find(state, '\n', start, true), start, sub(state, p + 18, p + 33) + 0
    local slot_digits, total_digits = tonumber(sub(state, p + 35, p + 35), 36), tonumber(sub(state, p + 36, p + 36), 36)
    local size, round, rounds, oldest = slot_digits + total_digits, 10 ^ slot_digits, 10 ^ total_digits, last
    if last + length <= now then
      if base < sequence then base, origin = sequence, last end
      at = finish
    end
    local first = at
    while at < finish do
      oldest = last - (last - tonumber(sub(state, at, at + slot_digits - 1))) % round
      if oldest + length > now then break end
      base, origin = sequence - (sequence - tonumber(sub(state, at + slot_digits, at + size - 1))) % rounds, oldest
      at, oldest = at + size, last
    end
    if (at > first or base == sequence) and sub(state, finish + 1, finish + 6) == 'behind' then break end

    -- The earliest slot with room.
    if last > now then slot = last end
    local need = sequence + permits - most
    if need > base then
      if permits > ARGV[7] + 0 then break end
      -- The first cell up to which so many permits are granted: it has to
      -- leave. A cell that many windows share has room in each.
      local low, high, leaves, total = 0, (finish - at) / size, last, sequence
      if need < sequence and high > 0 then
        local middle = high - 1
        while low < high do
          local from = at + middle * size + slot_digits
          local upto = sequence - (sequence - tonumber(sub(state, from, from + total_digits - 1))) % rounds
          if upto >= need then
            high, total, leaves = middle, upto, from
          else
            low = middle + 1
          end
          middle = math.floor((low + high) / 2)
        end
        if total == sequence then
          leaves = last
        else
          leaves = last - (last - tonumber(sub(state, leaves - slot_digits, leaves - 1))) % round
        end
      end
      leaves = leaves - math.floor((total - need) / most) * length + length
      if leaves > slot then slot = leaves end
    end
    if slot - now > ARGV[8] + 0 then return slot - now end

    -- The newest cell takes them, or is closed and another begins.
    local kind, cell = sub(state, p + 34, start - 1), ''
    local bound, until_slot, moments = 0, 0, 0
    if sub(mode, 1, 1) == 'c' then
      bound, until_slot = sub(state, p + 40, p + 55) + 0, sub(state, p + 57, p + 72) + 0
      moments = sub(state, p + 74, p + 76) + 1
    end
    if base == sequence then
      kind = format('%s%s:', sub(kind, 1, 4), most == 1 and 'r' or '.')
    elseif slot > last and last <= now and slot < bound then
      kind = format('%sc %16d %16d %3d:', sub(kind, 1, 4), bound, until_slot, math.min(131, moments))
    elseif slot > last and sub(mode, 1, 1) == 'r' and slot == last + length then
      if at < finish and (slot - oldest >= round or sequence + permits - base >= rounds) then break end
    elseif slot > last then
      if (finish - at) / size >= 159 or slot + length - oldest >= round
        or sequence + permits + most - base >= rounds then break end
      cell = sub(state, -slot_digits) .. sub(state, -34 - total_digits, -35)
      if slot >= until_slot then until_slot, moments = moments > 131 and slot + length or 0, 1 end
      if until_slot > 0 then
        local phase = slot % length
        bound = slot - phase + math.ceil((math.floor(phase * 64 / length) + 1) * length / 64)
        bound, moments = math.min(bound, until_slot), math.min(131, moments)
        kind = format('%sc %16d %16d %3d:', sub(kind, 1, 4), bound, until_slot, moments)
      else
        kind = format('%s%s:', sub(kind, 1, 4), most == 1 and 'r' or '.')
      end
    end
    text = format('%s%16d %16d', head, base, origin) .. kind
    text = text .. sub(state, at, finish - 1) .. cell .. sub(state, finish, -51)
  end

  local life = ARGV[6]
  if slot > now then life = format('%d', math.ceil((slot + length - now) / 1000) + 1) end
  text = text .. format('%16d %16d %16d', sequence + permits, now, slot)
  local reply = redis.pcall('PSETEX', key, life, text)
  if reply.err then return redis.error_reply(reply.err) end
  return sub(text, -59)
end
