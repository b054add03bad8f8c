-- Makes the units' key one of the caller's units and windows.
--
-- Takes    what mend.lua and windows.lua leave
-- Leaves   layout; must, if the key was written

-- The header has become longer or shorter, or there are more blocks: they move.
local function move_blocks()
  local whole, texts = call('GETRANGE', units_key, '0', '-1'), {}
  local from = {}
  for _, block in ipairs(layout) do from[block.name] = block.size end
  lay_out()
  for i, block in ipairs(layout) do
    local text = from[block.name] and sub(whole, from[block.name] + 1, from[block.name] + BLOCK) or ''
    texts[i] = text .. string.rep(' ', BLOCK - #text)
  end
  local header = units_header()
  local problem = redis.pcall('PSETEX', units_key, format('%d', math.max(left, 1000)), header .. table.concat(texts))
  if problem.err then error(problem.err, 0) end
  must = true
end

if count > 0 and not begun then
  lay_out()
elseif not whole and (relocates or must) then
  move_blocks()
end
