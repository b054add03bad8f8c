-- Selects the windows that a caller is held to, and keeps those of others.
--
-- Takes    what log.lua leaves
-- Leaves   select_windows; and forget_pace, adopt and compact_full, which
--          compact.lua makes
--
-- Callers of one name are meant to be given the same quotas. While they are
-- not, as in a rolling deploy, each is held to its own windows, counted over
-- the permits of all.

-- Of all callers together. Of more, the longest stay: the others can be made
-- from them again.
local MOST_WINDOWS = 16

local forget_pace, adopt, compact_full

-- The windows that a word names, each with its cells on a grid; see internal/grid.
local function windows_of(word)
  local windows, period = {}, 0
  for most, length, grid in string.gmatch(word, '(%d+)/(%d+)([/%d]*)') do
    local cells, laps = match(grid, '^/(%d+)/?(%d*)$')
    cells = cells and number(cells) or math.min(64, number(length)) -- none is finer than a microsecond
    laps = laps and laps ~= '' and number(laps) or cells
    windows[#windows + 1] = { most = number(most), length = number(length), cells = cells, laps = laps }
    if cells == 0 or laps == 0 then damaged() end
    period = math.max(period, length + 0)
  end
  for _, window in ipairs(windows) do
    if window.cells > period or window.laps > period then damaged() end
    window.period = period
  end
  return windows
end

-- The pace is the window that tells where within a cell its permits can be: at
-- most burst of them in the last interval of it, as many in the one before, and
-- so on. Of the windows shorter than a cell of the longest it is the slowest,
-- of equally slow ones the shortest; where there is none, the shortest window:
-- see PaceOf in internal/grid. Where it is one permit an interval, permits are
-- a spacing apart.
local function set_pace(queue, windows)
  local pace, short = nil, math.floor(windows[1].period / 64)
  for _, window in ipairs(windows) do
    local better = not pace or window.length < pace.length
    if pace and window.length <= short and pace.length <= short then
      local rate, least = window.most / window.length, pace.most / pace.length
      if rate < least * 0.999 then better = true elseif least < rate * 0.999 then better = false end
    end
    if better then pace = window end
  end
  queue.interval, queue.burst, queue.spacing = pace.length, pace.most, pace.most == 1 and pace.length or 0
end

-- The stored window that knows most of this one: of the same length, else the
-- next longer, else the longest.
local function closest(queue, length)
  local best
  for _, window in ipairs(queue) do
    local enough, best_enough = window.length >= length, best and best.length >= length
    if not best or enough and (not best_enough or window.length < best.length)
      or not enough and not best_enough and window.length > best.length then
      best = window
    end
  end
  return best
end

local function copy_of(table)
  local copy = {}
  for field, value in pairs(table or {}) do copy[field] = value end
  return table and copy
end

-- Lines up the caller's windows, and behind them those of others. A window
-- that is new starts as a copy of the closest. Others' windows are idle from
-- now on; they stay for three lengths, so that two pass without a caller.
-- Returns whether the caller is to be noted even if it is refused: its window
-- is new, or has been idle for a length.
local function line_up(queue, windows)
  local lined, taken, others, noted, now = {}, {}, {}, false, queue.now
  for i, asked in ipairs(windows) do
    local window = closest(queue, asked.length) or new_window(asked.length)
    if window.length == asked.length then
      taken[window] = true
      noted = noted or window.idle > 0 and window.idle + window.length <= now
    else
      window, noted = copy_of(window), true
      window.length, window.closed, window.mode, window.unwritten, window.copied = asked.length, {}, '.', true, true
      window.behind = copy_of(window.behind)
    end
    window.most, window.idle, window.room = asked.most, 0, 0
    window.period, window.cells, window.laps = asked.period, asked.cells, asked.laps
    lined[i] = window
  end
  for _, window in ipairs(queue) do
    if not taken[window] and (window.idle == 0 or window.idle + 3 * window.length > now) then
      if window.idle == 0 then window.idle = now end
      others[#others + 1] = window
    end
  end
  table.sort(others, function(a, b) return a.length > b.length end)
  for i = 1, math.max(#queue, MOST_WINDOWS) do
    queue[i] = lined[i] or i <= MOST_WINDOWS and others[i - #lined] or nil
  end
  queue.asked = #lined
  return noted
end

local function is_empty(queue)
  for _, window in ipairs(queue) do
    if window.last > 0 then return false end
  end
  return true
end

-- Lines up the caller's windows where the state has just these.
local function keep_windows(queue, windows)
  for i, asked in ipairs(windows) do
    local window = queue[i]
    if window.length ~= asked.length then damaged() end
    window.most, window.period, window.cells, window.laps = asked.most, asked.period, asked.cells, asked.laps
  end
  queue.asked = #windows
end

-- Makes the queue the caller's. Who gives back leaves its word and its pace
-- as they are. Returns whether the queue is to be written even if nothing is
-- granted.
local function select_windows(queue, returns)
  if format('%d', 2 ^ 53) ~= '9007199254740992' then error('STATE this server counts with 32 bits', 0) end
  local word, noted = sub(head, 7, -4), false
  if word == '' then word = queue.word end
  local known = windows_of(queue.word)
  if #known == 0 or queue[1] and #queue < #known then damaged() end
  if queue.mixed == 0 then set_pace(queue, known) end
  if queue[1] then
    local _, natural = bounds(queue)
    queue.ends = math.max(queue.ends, natural)
  end
  if returns and queue[1] or word == queue.word and #queue == #known then
    keep_windows(queue, known)
  else
    noted = line_up(queue, windows_of(word))
  end
  for _, window in ipairs(queue) do
    if returns or not has_room(queue) then drop_passed(queue, window) end
  end
  local tail = math.max(queue.now, (bounds(queue)))
  for _, window in ipairs(queue) do
    if window.copied then adopt(queue, window, tail) end
  end
  if returns then return noted end
  local interval, burst = queue.interval, queue.burst
  set_pace(queue, windows_of(word))
  if is_empty(queue) then
    queue.mixed = 0
  elseif queue.interval ~= interval or queue.burst ~= burst then
    queue.interval, queue.burst, queue.spacing = interval, burst, burst == 1 and interval or 0
    if queue.mixed == 0 then -- else no cell tells of a pace
      forget_pace(queue, tail)
      compact_full(queue, tail)
    end
  end
  queue.word = word
  return noted
end
