-- The queue's clock: the server's, plus an offset. It stands still while the
-- queue is paused, and may run slower for a while.
--
-- Takes    what header.lua leaves
-- Leaves   moment_of, label_at, wait_for, label_in, read_clock, set_clock,
--          slow_until, stretch_at, forget_slow, slow_up_to, sooner_than, stand_still, is_ahead, stretches, news, settle
--
-- Slots are labels on this clock: while it stands still nobody's slot changes,
-- but all come later. Of two labels the later one never comes less than their
-- difference after the other, so what is strict in labels is strict in time.
--
-- Server and offset together are the moment. Usually the clock is at just this
-- label. A pause takes from the offset, so that the moment falls behind the
-- clock, by rest, until it has caught up. In a stretch, which narrow.lua makes,
-- the clock runs slower: a million of its microseconds take as long as the pace
-- says. It has shown a label for a while then, by which it is late.

-- The moment at which the clock reaches a label, by its stretches or by others.
local function moment_of(label, along)
  local at, from = label, label
  for _, stretch in ipairs(along or slow) do
    local length = stretch.upto - from
    if length > 0 then
      at, from = at + length - floor(length * stretch.pace / 1000000), stretch.upto
    end
  end
  return at
end

-- The label that the clock has reached at a moment: the last one whose moment
-- is not later.
local function label_at(at, along)
  for _, stretch in ipairs(along or slow) do
    local ends = moment_of(stretch.upto, along)
    if at < ends then
      local label = stretch.upto - math.ceil((ends - at) * 1000000 / stretch.pace)
      if moment_of(label, along) > at then return label - 1 end
      if moment_of(label + 1, along) <= at then return label + 1 end
      return label
    end
  end
  return at
end

-- How long it takes from now on until the clock has reached a label. The
-- limiter reckons in the same way: see News.Until in package engine.
wait_for = function(label)
  if label <= now then return rest end
  return rest - late + moment_of(label) - moment_of(now)
end

-- The last label that the clock reaches within a wait.
label_in = function(wait)
  return wait < 0 and now - 1 or label_at(server + offset + wait)
end

-- Where the clock is by the offset. It does not go back: it stands still until
-- the moment has caught up.
local function read_clock()
  local due, at = moment_of(clock), server + offset
  rest = math.max(0, due - at)
  now = rest > 0 and clock or label_at(at)
  late = rest > 0 and 0 or at - moment_of(now)
end

-- Up to when a stretch goes, the last one if none is named. There is none before
-- the clock.
local function slow_until(i)
  local stretch = slow[i or #slow]
  return stretch and stretch.upto or now
end

-- The stretch of a label on a clock, one of no windows if the clock is not slow.
local function stretch_at(label, along)
  for _, stretch in ipairs(along) do
    if stretch.upto >= label then return stretch end
  end
  return { pace = 1000000, under = '' }
end

-- Forgets the stretches that are over.
local function forget_slow()
  while slow[1] and now >= slow[1].upto do table.remove(slow, 1) end
end

-- Sets the clock. If the server's has gone back since the state was written, the
-- offset makes up for it, so that the queue's carries on.
local function set_clock()
  local gone_back = moment - server - offset
  if gone_back > 0 then offset, must = offset + gone_back, true end
  read_clock()
  forget_slow()
end

-- Lets the clock run as the server's does from a label on.
slow_up_to = function(label)
  local before = moment_of(now)
  while slow[1] and slow_until(#slow - 1) >= label do table.remove(slow) end
  if slow[1] then slow[#slow].upto = math.min(slow_until(), label) end
  offset = offset + moment_of(now) - before
end

local written_at = moment - offset -- in the time of the server that wrote the state
set_clock()

-- Lets the clock stand still for so long: at a label that it has not shown
-- before, so that all turns from now on are ahead.
local function stand_still(for_long)
  local at = moment_of(now) + late
  if rest == 0 and for_long > 0 then now = now + 1 end
  rest = for_long + math.max(0, moment_of(now) - at - 1) -- the clock had shown a slow label for a while only
  late, offset = 0, moment_of(now) - rest - server
end

-- Whether nobody can have gone at the slot yet.
is_ahead = function(slot)
  return slot > now or rest > 0 and slot == now
end

-- By how much sooner labels up to a given one come than another clock tells, at
-- most. That clock has other stretches, and a wait for the given label. It has shown
-- a label, and has reached another by now. The difference is most where one of the
-- two clocks turns.
local function sooner_than(others, label, wait, shown)
  local most, due = 0, wait - moment_of(label, others)
  local from = math.min(now, math.max(clock, shown, label_at(-due, others)))
  local function look(at) most = math.max(most, due + moment_of(at, others) - (moment_of(at) - server - offset)) end
  look(from)
  for _, each in ipairs({ slow, others }) do
    for _, stretch in ipairs(each) do
      if stretch.upto > from and stretch.upto < label then look(stretch.upto) end
    end
  end
  if wait > 0 then look(label) end
  return most
end

-- The stretches as a text, '-' if there are none.
local function stretches()
  local words = {}
  for i, stretch in ipairs(slow) do words[i] = format('%d:%d:%s', stretch.upto, stretch.pace, stretch.under) end
  return words[1] and table.concat(words, '|') or '-'
end

-- What a limiter is told of the queue as a whole, behind '<generation> <epoch>
-- <sequence> <clock> <newest slot>' as the state has them: '<clock> <rest>
-- <reset's end> <lost> <differs> <server> <ends> <obeys> <stretches>', with the
-- clock as it is now. The rest is negative if the clock is late. The reset's
-- end is until when a reset is remembered, 0 if there was none. Lost is 1 if
-- turns had been lost. Differs is 1 if the caller before had other windows,
-- unless other quotas are stored now. Server is the server's time. Ends is up
-- to when the queue lives at least, 0 if the caller's windows tell. Obeys is 1
-- if it goes by these.
news = function()
  local remembered, differs_now = reset_end > server and reset_end or 0, differs and not changed_text
  return format('%s%16d %16d %16d %d %d %d %d %d %d %d %d %s', name, sequence, clock, last, now, rest - late,
    remembered, healed and 1 or 0, differs_now and 1 or 0, server, ends, (obeys or head == ARGV[1]) and 1 or 0,
    stretches())
end

-- Chooses the mark. Returns the notes, nil if there are none.
settle = function()
  if reset_end <= server then reset_end = 0 end
  if full + counts_for() <= now and not is_nobodys() then full = 0 end -- others may know a longer window
  if coarse <= now then in_use = '-' end
  mark = (rest > 0 or slow[1]) and '+' or (reset_end + full > 0 or in_use .. epochs ~= '-') and 'n' or '-'
  if mark == '-' then return nil end
  return format('%16d %16d %16d %16d %s %s%s\n',
    server + offset, reset_end, full, paced, stretches(), in_use, epochs)
end
