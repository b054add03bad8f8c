-- Goes on as a state that is read.
--
-- Takes    what windows.lua leaves
-- Leaves   for write.lua: kept, granted, changed, marked

local kept, granted, changed, marked = counts_for(), 0, true, true
