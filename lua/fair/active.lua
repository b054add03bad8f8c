-- Says how long the flows that were granted turns are active.
--
-- Takes    what flows.lua and grant.lua leave
-- Leaves   flag, front and lives, for write.lua

for _, flow in ipairs(asking) do
  if flow.newest then
    local over = 10000 * math.ceil((flow.newest + grace) / 10000)
    flow.grew = over > flow.ends
    if flow.grew then flow.ends = over end
    if flow.entry then flow.entry.ends = math.max(flow.entry.ends, over) end
    if over > lives then lives = over end
  end
end
if list and flag ~= list.flag then flag, front = list.flag, true end
