-- Goes back to the log of calls.
--
-- Takes    what units.lua leaves, and sums: how many turns the logs were granted
-- Leaves   for write.lua: kept, granted, changed, marked, lives

go_to(0)
for i = 0, count do lives = math.max(lives, logs[i].last + kept_of(logs[i])) end
local kept, granted, changed, marked = kept_of(logs[0]), sums, true, true
