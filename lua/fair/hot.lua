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
--   p+1..16    room       p+57..72  bound      -76..-70  server
--   p+18..33   base       p+74..89  until      -68..-61  generation
--   p+35..50   origin     p+91..93  moments    -59..-52  epoch
--   p+52, 53   digits                          -50..-35  sequence
--   p+55       mode                            -33..-18  clock
--                                              -16..-1   newest slot
--
-- The middle ones are there only while the mode is 'c'. Then come ':' and the
-- cells, up to the end of the line. A histogram and epochs may follow, each in a
-- line of its own; they stay as they are.

local p, argv = #head, ARGV
while argv[9] and not argv[10] and state and left > 0 and #state < 4096 and sub(state, 1, p) == head do
  -- What the caller saw must be of this history.
  if seen ~= '' and seen ~= sub(state, -68, -18) and not (sub(seen, 1, 18) == sub(state, -68, -51)
    and sub(seen, 19, 34) + 0 <= sub(state, -50, -35) + 0 and sub(seen, 36) + 0 <= sub(state, -33, -18) + 0) then
    break
  end

  local now, sequence, last = server, sub(state, -50, -35) + 0, sub(state, -16) + 0
  local silence, permits, most, length = now - sub(state, -33, -18), argv[7] + 0, nil, nil
  if not (silence >= 0 and sequence < 2 ^ 52 and last < 2 ^ 52) then break end
  if argv[9] ~= '1' then
    if argv[9] + 0 < 1 then break end
    permits = permits * argv[9]
  end
  local total, mode, slot, text, whole = sequence + permits, sub(state, p + 55, p + 57), now, nil, false
  if last > now then slot = last end

  -- The cells end with their line; only two kinds of lines may follow.
  local finish = mode == 'r:\n' and p + 57 or string.find(state, '\n', p + 57, true)
  if finish ~= #state - 76 then
    local follows = sub(state, finish + 1, finish + 7)
    if follows ~= 'behind ' and follows ~= 'epochs ' then break end
  end

  if mode == 'r:\n' then
    -- One permit at a time: the row goes on.
    length = argv[5] + 0
    if last + length > now then
      slot = last + length * permits
      if slot - now > argv[8] + 0 then
        if permits > 1 then break end
        return slot - now
      end
      text = sub(state, 1, -51)
    end
  elseif total <= sub(state, p + 1, p + 16) + 0 then
    -- There is room, at the newest slot or, if that has come, now.
    if slot == last then
      if slot - now > argv[8] + 0 then return slot - now end
      text = sub(state, 1, -51)
    elseif sub(mode, 1, 1) == 'c' and now < sub(state, p + 57, p + 72) + 0 then
      -- The newest cell of a crowded window takes it.
      local moments = sub(state, p + 91, p + 93)
      if moments == '131' then
        text = sub(state, 1, -51)
      else
        text = sub(state, 1, p + 90) .. format('%3d', moments + 1) .. sub(state, p + 94, -51)
      end
    end
  end

  if not text then
    -- What has left the window goes.
    most, length = argv[4] + 0, argv[5] + 0
    local start = sub(mode, 1, 1) == 'c' and p + 95 or p + 57
    local at = start
    local base, origin = sub(state, p + 18, p + 33) + 0, sub(state, p + 35, p + 50)
    local slot_digits, total_digits = string.byte(state, p + 52, p + 53) -- in base 36
    slot_digits = slot_digits - (slot_digits < 58 and 48 or 87)
    total_digits = total_digits - (total_digits < 58 and 48 or 87)
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
    if (at > first or base == sequence) and sub(state, finish + 1, finish + 7) == 'behind ' then break end

    -- The earliest slot: when the first cell has left up to which so many
    -- permits are granted. A cell of several lengths has that many of them.
    local need, upto = total - most, base
    if need > base then
      if permits > argv[7] + 0 then break end
      local low, high, leaves = 0, (finish - at) / size, last
      upto = sequence
      if need < sequence and high > 0 then
        local middle, found = (need - base - 1) / (sequence - base) * high, nil
        middle = middle - middle % 1
        while low < high do
          local from = at + middle * size + slot_digits
          local reached = sequence - (sequence - tonumber(sub(state, from, from + total_digits - 1))) % rounds
          if reached >= need then
            high, upto, found = middle, reached, from
          else
            low = middle + 1
          end
          middle = found == from and middle > low and middle - 1 or math.floor((low + high) / 2)
        end
        if found == at + slot_digits then
          leaves = oldest
        elseif found then
          leaves = last - (last - tonumber(sub(state, found - slot_digits, found - 1))) % round
        end
      end
      local laps = math.floor((upto - need) / most)
      leaves, upto = leaves + length - laps * length, upto - laps * most
      if leaves > slot then slot = leaves end
    end
    if slot - now > argv[8] + 0 then return slot - now end
    if total - base > 9999999999 or at < finish and total - base >= rounds then break end

    -- The newest cell takes them, or is closed and another begins.
    local kind, cell, until_slot = sub(state, p + 51, start - 1), '', nil
    local bound, moments = 0, 0
    if sub(mode, 1, 1) == 'c' then
      bound, until_slot = sub(state, p + 57, p + 72) + 0, sub(state, p + 74, p + 89) + 0
      moments = math.min(131, sub(state, p + 91, p + 93) + 1)
    end
    if base == sequence then
      kind = format('%s%s:', sub(kind, 1, 4), most == 1 and 'r' or '.')
    elseif slot > last and last <= now and slot < bound then
      kind = format('%sc %16d %16d %3d:', sub(kind, 1, 4), bound, until_slot, moments)
    elseif most == 1 then
      if at < finish and slot - oldest >= round then break end
    elseif slot > last then
      local bytes = finish - at + size
      if sub(state, finish + 1, finish + 7) == 'behind ' then
        bytes = bytes + string.find(state, '\n', finish + 1, true) - finish
      end
      if bytes > MOST_LINES or (finish - at) / size >= 159 then break end
      if slot + length - oldest >= round or total - base >= rounds then break end
      cell = sub(state, -slot_digits) .. sub(state, -34 - total_digits, -35)
      if until_slot and slot >= until_slot then
        until_slot = moments > 130 and slot + length
        moments = 1
      end
      if until_slot then
        local phase = slot % length
        bound = slot - phase + math.ceil((math.floor(phase * 64 / length) + 1) * length / 64)
        kind = format('%sc %16d %16d %3d:', sub(kind, 1, 4), math.min(bound, until_slot), until_slot, moments)
      else
        kind = format('%s.:', sub(kind, 1, 4))
      end
    end
    local room = most > 1 and math.min(upto + most, base + rounds - 1) or 0
    text = format('%s%16d %16d %16d', head, room, base, origin) .. kind .. sub(state, at, finish - 1) .. cell ..
      sub(state, finish, -51) .. format('%16d %16d %16d', total, now, slot)
    whole = true
  end

  -- It must be of the epoch that the state was written in.
  if slot >= 2 ^ 52 or sub(state, -76, -70) ~= this_server() then break end
  local epoch = sub(state, -59, -52)
  if silence >= SILENCE and (replication() or epoch) ~= epoch then break end

  local life = argv[6]
  if slot > now then
    length = length or argv[5] + 0
    life = format('%d', math.ceil((slot + length - now) / 1000) + 1)
  end
  if not whole then text = text .. format('%16d %16d %16d', total, now, slot) end
  local reply = redis.pcall('PSETEX', key, life, text)
  if reply.err then return redis.error_reply(reply.err) end
  return sub(text, -68)
end
