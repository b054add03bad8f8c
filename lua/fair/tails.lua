-- The tail is not before that of a unit, which a caller of calls alone does not
-- know of otherwise.
--
-- Takes    name
-- Leaves   at_least, for release.lua

local units = redis.pcall('GETRANGE', key .. ':units', '0', '8191')
local generation, from = match(type(units) == 'string' and units or '', '^units1[^\n]*\n(%w+)[^\n]*\n()')
if generation == sub(name, 1, 8) then
  for newest in string.gmatch(sub(units, from), ' *%d+ +(%d+) +%d+ +%d+ +%d+ +%d+ +%d+ +%d+ +%d+ +%d+\n') do
    at_least = math.max(at_least, newest + 0)
  end
end
