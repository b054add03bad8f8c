-- Opens the log of each flow that asks. It is what one flow was granted: for its
-- ceiling, which is quotas of this flow inside those of the queue, and for its
-- pause.
--
-- KEYS, the last ones  the log of each flow that asks
-- asked[asker + 6..]   of each flow, see flows.lua: its ceiling, as '<most>/<length>,...'
--                      from the longest to the shortest, '' if none; and what
--                      the caller was told last, '<generation> <total>', '' if
--                      nothing that counts
--
-- Takes    what flows.lua leaves
-- Leaves   in asking: log, for each flow that has a ceiling or a pause: total,
--          words (its ceiling), answer and book; lives: the queue does for as
--          long as the log counts
--
-- A log is a sorted set, on the queue's clock:
--
--   member                   score
--   <slot>                   how many permits the flow was granted up to it
--   generation <generation> <label>  -1: whose slots these are, and when it began
--   pause <label> <generation>  -2: no turn of the flow is granted before it
--   quota <ceiling> <text>   -3: stored, in place of those of the limiters
--   given <ceiling>          -4: that of the limiter that took the newest turn, for
--                            those who look
--
-- So a window is one look at it, as in the queue's own log: the permit that has
-- to leave is in the first slot whose total reaches it. From 64 slots on, those in
-- one 64th of the longest length count at the later one.
--
-- If the caller knows of more than the log has, or of a queue that was lost, the
-- ceiling counts as full at the newest slot of the queue.

local PLACES = 64
local SPARE = 3600000 -- ms that a log stays longer, for pauses
local LATER, TOO_MANY = -2, -3 -- in place of a slot: the ceiling has no room yet; it never has
local KNOWN = 10000000 -- a queue outlives its turns by more than limiters remember them: else they seem lost

-- Whether a reset is remembered that the caller has not heard of.
local function was_reset()
  if mark == '-' then return false end
  local noted = size + CELLS * WIDTH + 17 -- behind the moment: see header.lua
  local reset_until = tonumber(call('GETRANGE', key, noted, noted + 15)) or 0
  local known_reset = match(ARGV[3], '^%w+ %d+ %d+ %d+ %d+ %d+ %d+ %d+ (%d+)') or 0 -- see recover.lua
  return reset_until > server and reset_until > known_reset + 0
end

local function open_log(place_of_log, ceiling, told_of)
  local notes = call('ZRANGEBYSCORE', place_of_log, '-inf', '(0')
  if ceiling == '' and #notes == 0 then return nil end
  local of, recorded, paused, total, newest, cells, stays = nil, nil, 0, 0, 0, 0, false
  local generation, asked_words = sub(name, 1, 8), ceiling
  for _, note in ipairs(notes) do
    local kind, value, whose = match(note, '^(%a+) (%S*) ?(%w*)')
    if kind == 'generation' then of = value end
    if kind == 'pause' and whose == generation then paused = value + 0 end
    if kind == 'quota' then ceiling, stays = value, true end
    if kind == 'given' then recorded = value end
  end
  if ceiling == '' and paused <= now then return nil end
  local is_stale, lasts = of ~= generation, nil
  local known, granted = match(told_of, '^(%w+) (%d+)$')
  local last_cell = call('ZRANGE', place_of_log, '-1', '-1', 'WITHSCORES')
  if last_cell[2] and last_cell[2] + 0 >= 0 then newest, total = last_cell[1] + 0, last_cell[2] + 0 end
  local longest, most = 0, 0
  for permits, length in string.gmatch(ceiling, '(%d+)/(%d+)') do
    longest, most = math.max(longest, length), math.max(most, permits)
  end

  if is_stale then
    total, newest = 0, 0
  else
    cells = call('ZCARD', place_of_log)
  end

  if newest > 0 and longest > 0 then lives = math.max(lives, newest + longest + KNOWN) end

  local opened = { total = total, words = ceiling ~= '' and ceiling or '-' }

  -- The earliest slot for so many permits, nil if there never is one.
  local function earliest(permits)
    local slot = paused
    if permits == 0 then return slot end
    for window, length in string.gmatch(ceiling, '(%d+)/(%d+)') do
      if permits > window + 0 then return nil end
      local need = total + permits - window
      local cell = need > 0 and call('ZRANGEBYSCORE', place_of_log, format('%d', need), '+inf', 'LIMIT', '0', '1')[1]
      if cell then slot = math.max(slot, cell + length) end
    end
    return slot
  end

  -- The answer to a request for which the queue has room at a slot: the slot, and
  -- how much further each is, as in grant.lua.
  function opened.answer(permits, slot, latest, spacing)
    local from = earliest(permits)
    if not from then return TOO_MANY, 0 end
    if from <= slot then return slot, 0 end
    if from > latest then return from, from == paused and 2 or 1 end
    -- It asks again when the others' turns reach up to there: later, they would
    -- have taken the places. If these stand still, it asks ever sooner.
    local ask = math.min(from, now + math.max(from - slot, spacing, floor((from - now) / 16)))
    local in_how_long = unusual and wait_for(ask) or ask - now
    return LATER, from == paused and -in_how_long or in_how_long
  end

  function opened.book(slot, permits)
    if most == 0 or permits == 0 then return end
    if is_stale then
      call('ZREMRANGEBYSCORE', place_of_log, '-1', '+inf')
      call('ZADD', place_of_log, '-1', format('generation %s %d', generation, now))
      is_stale = false
    end
    if asked_words ~= '' and asked_words ~= recorded then
      call('ZREMRANGEBYSCORE', place_of_log, '-4', '-4')
      call('ZADD', place_of_log, '-4', format('given %s', asked_words))
      recorded = asked_words
    end
    if cells > PLACES and floor(slot * PLACES / longest) == floor(newest * PLACES / longest) then
      call('ZREM', place_of_log, format('%d', newest))
    end
    total, newest = total + permits, slot
    call('ZADD', place_of_log, format('%d', total), format('%d', slot))
    -- What has left goes once there is much of it, but for one: its total is where
    -- the others begin.
    local first_cells = cells > PLACES / 2 and call('ZRANGEBYSCORE', place_of_log, '0', '+inf', 'LIMIT', '0', '3') or {}
    for i = 1, #first_cells - 1 do
      if first_cells[i + 1] + longest <= now then call('ZREM', place_of_log, first_cells[i]) end
    end
    lives = math.max(lives, slot + longest + KNOWN)
    local life = math.max(slot + longest, paused)
    life = unusual and wait_for(life) or life - now
    local needs = math.ceil(life / 1000) + SPARE
    lasts = lasts or call('PTTL', place_of_log) -- another's ceiling may count for longer
    if not stays and lasts < needs then
      call('PEXPIRE', place_of_log, format('%d', needs))
      lasts = needs
    end
    opened.total = total
  end

  local is_lost = known and (known ~= generation or granted + 0 > total)
  if is_lost and (known == generation or not was_reset()) then
    local lost = known == generation and granted - total or 0
    opened.book(math.max(last, now), math.max(most, lost))
    must = true
  end
  return opened
end

for i, flow in ipairs(asking) do
  local at = asker + ASKS * i - ASKS
  flow.log = open_log(KEYS[#KEYS - askers + i], asked[at + 6], asked[at + 7])
end
