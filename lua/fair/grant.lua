-- Grants what the requests ask for: the one way for all of them.
--
-- ARGV[first..]  for each run of equal requests: the flow (0 without), permits,
--                longest wait, how many
--
-- Takes    what rest.lua leaves, or what is unusual; asking, of flows.lua and
--          ceiling.lua; at_least, before which nobody goes
-- Leaves   granted (how many turns), changed, marked; groups (how many answers),
--          answer, ahead, step, together: those of the first; answers: from the
--          second on, a table of all: how far ahead of the clock, how many
--          (negative: refused), how much further each is than the one before.
--          Of those that a ceiling holds back the last is in how long to ask
--          again, negative if the flow's pause does; 1 if it refuses, 2 if the
--          pause does
--
-- A request for n permits at sequence S goes at the latest of the clock, the
-- tail and, for each window of N in T, the slot of permit S+n-N, plus T. A cell
-- tells where that permit stands at the latest: its windows say how far back.
-- Beside other flows it goes n paces after the tail as well.

local MOST_GROUPS = 64  -- one run of the script grants at so many slots at most
local MOST_LOOKED = 1500 -- after so many cells the rest is for the next run: each takes half a microsecond
local FULL, LEFT = -1, -2 -- in place of how far ahead: nothing counts so far; over the share of its flow
local MOST_HELD = 10000000000

local period, short, least = argv[7] + 0, argv[windows_end - 1] + 0, argv[windows_end - 2] + 0
local kept = coarse > now and span > period and span or period -- for how long a permit counts
local farthest = MOST_SLOT - 2 * kept -- the state has later moments than a slot, too
local tail, changed, marked, granted = last > now and last or now, fresh or unusual, false, 0
if at_least > tail then tail = at_least end
local groups, ahead, together, step, answers = 0, nil, nil, nil, nil
local refused_permits, refused_slot, looked = 0, 0, 0 -- looked at so many cells

if last + kept <= now then -- nothing counts any more
  marks, marked, changed, closed, oldest, crowded, base = '', true, true, 0, 0, 0, sequence
  for w = 6, windows_end, 3 do marks = format('%s%16d %4d\n', marks, sequence + argv[w], 0) end
end

for run = first, #argv, 4 do
  local flow, permits, count = asking and asking[argv[run] + 0], argv[run + 1] + 0, argv[run + 3] + 0
  local latest = label_in and label_in(argv[run + 2] + 0) or now + argv[run + 2]
  while count > 0 do
    -- The earliest slot, and up to which sequence there is room at it.
    local slot, room, others, from, unmarked, fits = tail, 2 ^ 53, 2 ^ 53, 1, marks, count
    local cost = flow and flow.cost or permits
    if last + pace * permits > slot then slot = last + pace * permits end
    if flow then
      fits = floor((flow.share - flow.held) / cost)
      if flow.held == 0 and fits < 1 or flow.log and fits > 1 then fits = 1 end
      if fits > count then fits = count end
    end
    if fits < 1 then
      slot = LEFT
    elseif permits == refused_permits and latest < refused_slot then
      slot = refused_slot
    else
      for w = 6, windows_end, 3 do
        local own, most = sub(marks, from, from + 15) + 0, argv[w] + 0
        if not (own - most <= sequence) then
          return redis.error_reply('STATE room for more permits than a window has')
        end
        if sequence + permits > own then
          local length, start, chunk = argv[w + 1] + 0, 0, ''
          local at = sub(marks, from + 17, from + 20) + 0
          local need, cell, total, upto, few = sequence + permits - most, 0, 0, nil, 3
          if need > sequence then return redis.error_reply('ERR a request for more permits than a window has') end
          if at < oldest then at = oldest end
          while true do
            if at >= closed then
              cell, total = last, sequence
            else
              local q = (at - start) * WIDTH
              if q >= #chunk then
                local index, to = at % CELLS, at + few
                if to >= closed then to = closed - 1 end
                to = index + to - at
                if to >= CELLS then to = CELLS - 1 end
                chunk, start, q, few = call('GETRANGE', key, size + index * WIDTH, size + to * WIDTH + 14), at, 0, 31
                looked = looked + to - index + 1
              end
              local a, b, c, d, e, f, g, h, i, j, k, l, m, n = byte(chunk, q + 1, q + 14)
              cell = ((((((a * 94 + b) * 94 + c) * 94 + d) * 94 + e) * 94 + f) * 94 + g) * 94 + h - 2162986556113515
              total = ((((i * 94 + j) * 94 + k) * 94 + l) * 94 + m) * 94 + n - 244792502955
              total = sequence - (sequence - total) % 689869781056
            end
            if upto and cell + length > slot then break end -- has not left at this slot
            if total >= need then
              if not upto then
                -- Each window says how far back the permits of a cell stand.
                local behind = total - need
                if behind >= least and coarse <= now then
                  for v = 6, windows_end, 3 do
                    local times = floor(behind / argv[v])
                    cell, behind = cell - times * argv[v + 1], behind - times * argv[v]
                  end
                end
                upto = need + behind
                if cell + length > slot then slot = cell + length end
              else
                upto = total
              end
              if upto < total or at >= closed then break end
            end
            at = at + 1
          end
          own = upto + most
          marks, marked = sub(marks, 1, from - 1) .. format('%16d %4d', own, at) .. sub(marks, from + 21), true
        end
        others = room
        if own < room then room = own end
        from = from + 22
      end
      if slot > latest then
        refused_permits, refused_slot = permits, slot
      elseif slot >= farthest then
        slot = FULL
      elseif sequence + permits - base >= MOST_HELD then
        -- No more count than the longest window lets through up to the tail.
        local most = coarse <= now and argv[6] * (1 + math.ceil((tail - now) / period)) or MOST_HELD
        if sequence - most > base then base, changed = sequence - most, true end
        if sequence + permits - base >= MOST_HELD then slot = FULL end
      end
    end

    -- Where the flow's ceiling has room later than the queue, others go first.
    local so_many, apart = -count, 0
    if flow and flow.log and slot >= 0 then
      slot, apart = flow.log.answer(permits, slot, latest, floor(short / least))
    end

    if slot < 0 or slot > latest then
      marks = unmarked -- there is room at that slot, not at the tail
      if flow and slot == LEFT then flow.held = flow.held + flow.share end -- none goes before one that had no room
      if slot < 0 then slot = slot + now end
      count = 0
    else
      so_many = 1
      if fits > 1 and pace == 0 then
        so_many = floor((room - sequence) / permits)
        if so_many > fits then so_many = fits elseif so_many < 1 then so_many = 1 end
        local held = sequence + permits * so_many - base
        if held >= MOST_HELD then so_many = 1 end
      end

      -- The newest cell takes them, or is closed and another begins.
      if slot > last then
        local row = permits > 0 and least == 1 and slot == last + short and coarse <= now
        local stretches = row
        if not row and slot < crowded then -- one cell of the grid
          local cells, phase, before = argv[windows_end], slot % period, last % period
          stretches = slot - phase == last - before and floor(phase * cells / period) == floor(before * cells / period)
        end
        if not stretches and last + kept > now and closed - oldest >= CELLS then
          stretches, crowded, changed = true, slot + 1, true
        end
        if not stretches and last + kept > now then
          local x, y = last, sequence % 689869781056
          local h = x % 94 x = (x - h) / 94 local g = x % 94 x = (x - g) / 94 local f = x % 94 x = (x - f) / 94
          local e = x % 94 x = (x - e) / 94 local d = x % 94 x = (x - d) / 94 local c = x % 94 x = (x - c) / 94
          local b = x % 94 x = (x - b) / 94
          local n = y % 94 y = (y - n) / 94 local m = y % 94 y = (y - m) / 94 local l = y % 94 y = (y - l) / 94
          local k = y % 94 y = (y - k) / 94 local j = y % 94 y = (y - j) / 94
          local problem = redis.pcall('SETRANGE', key, size + closed % CELLS * WIDTH, string.char(33 + x, 33 + b,
            33 + c, 33 + d, 33 + e, 33 + f, 33 + g, 33 + h, 33 + y, 33 + j, 33 + k, 33 + l, 33 + m, 33 + n,
            last < crowded and 126 or 46))
          if type(problem) == 'table' then return redis.error_reply(problem.err) end
          closed, changed = closed + 1, true
        end
      end
      last, sequence, tail, count = slot, sequence + permits * so_many, slot, count - so_many
      granted, refused_permits = granted + so_many, 0

      -- Where one permit at a time is all that holds them back, they go in a row.
      if count > 0 and least == 1 and fits > 1 and coarse <= now then
        local more = floor(((latest < farthest and latest or farthest - 1) - slot) / short)
        if more > fits - 1 then more = fits - 1 end
        if more > others - sequence then more = others - sequence end
        if more > 0 and sequence + more - base < MOST_HELD then
          last, sequence, count, so_many, apart = slot + more * short, sequence + more, count - more, 1 + more, short
          tail, granted = last, granted + more
        end
      end
      if flow then
        flow.held, flow.newest = flow.held + cost * so_many, last
        if flow.log then flow.log.book(slot, permits) end
      end
    end

    groups = groups + 1
    if groups == 1 then
      ahead, together, step = slot - now, so_many, apart
    else
      answers = answers or { '', '', ahead, together, step }
      answers[3 * groups], answers[3 * groups + 1], answers[3 * groups + 2] = slot - now, so_many, apart
    end
    if groups * argv[5] >= 4 * MOST_GROUPS or granted > 0 and closed - oldest >= CELLS then count = -1 end
    if groups >= MOST_GROUPS and so_many > 0 or looked > MOST_LOOKED then count = -1 end
  end
  if count < 0 then break end
end
