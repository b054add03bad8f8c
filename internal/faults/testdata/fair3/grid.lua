local function scale(a, b, c)
  if a * b < 2 ^ 53 then
    local rest = a * b % c
    return (a * b - rest) / c, rest
  end
  local unit, whole, rest = 1, 0, 0
  while unit * 8 <= b do unit = unit * 8 end
  while unit >= 1 do -- long division, a digit of b in base 8 at a time
    rest = rest * 8 + a * (floor(b / unit) % 8)
    whole, rest, unit = whole * 8 + floor(rest / c), rest % c, unit / 8
  end
  return whole, rest
end
local function scale_up(a, b, c)
  local whole, rest = scale(a, b, c)
  return rest > 0 and whole + 1 or whole
end
local function cell_at(grid, slot)
  local period, cells, laps, since = grid.period, grid.cells, grid.laps, slot - (grid.from or 0)
  local phase = since % period
  local cell = (scale(phase, laps, period))
  if laps ~= cells then cell = (scale(cell, cells, laps)) end
  return (since - phase) / period * cells + cell
end
local function start_of(grid, cell)
  local period, cells, laps = grid.period, grid.cells, grid.laps
  local share = cell % cells
  local lap = laps == cells and share or scale_up(share, laps, cells)
  return (grid.from or 0) + (cell - share) / cells * period + scale_up(lap, period, laps)
end
local function bound_of(grid, slot)
  return start_of(grid, cell_at(grid, slot) + 1)
end
