-- The grid of a window: cells of time, as many a period, each a whole number
-- of laps. Why these numbers: see internal/grid.
--
-- Takes    what log.lua leaves
-- Leaves   cell_at, start_of, bound_of
--
-- A grid is a table: from (its first moment; 0 if it has none), period,
-- cells, laps.

-- a * b / c, whole and rest, for whole a <= c: exactly, also where the product
-- is no whole number of a double.
local function scale(a, b, c)
  if a * b < 2 ^ 53 then
    local rest = a * b % c
    return (a * b - rest) / c, rest
  end
  local unit, whole, rest = 1, 0, 0
  while unit * 8 <= b do unit = unit * 8 end
  while unit >= 1 do -- long division, a digit of b in base 8 at a time
    rest = rest * 8 + a * (math.floor(b / unit) % 8)
    whole = whole * 8 + math.floor(rest / c)
    rest, unit = rest % c, unit / 8
  end
  return whole, rest
end

local function scale_up(a, b, c)
  local whole, rest = scale(a, b, c)
  return rest > 0 and whole + 1 or whole
end

-- The number of the cell that a slot lies in.
local function cell_at(grid, slot)
  local period, cells, laps, since = grid.period, grid.cells, grid.laps, slot - (grid.from or 0)
  local phase = since % period
  local cell = (scale(phase, laps, period))
  if laps ~= cells then cell = (scale(cell, cells, laps)) end
  return (since - phase) / period * cells + cell
end

-- The first moment of a cell.
local function start_of(grid, cell)
  local period, cells, laps = grid.period, grid.cells, grid.laps
  local share = cell % cells
  local lap = laps == cells and share or scale_up(share, laps, cells)
  return (grid.from or 0) + (cell - share) / cells * period + scale_up(lap, period, laps)
end

-- Where the cell ends that a slot lies in.
local function bound_of(grid, slot)
  return start_of(grid, cell_at(grid, slot) + 1)
end
