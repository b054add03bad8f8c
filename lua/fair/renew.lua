-- Stands in for quota.lua where the quotas are stored anew.
--
-- Takes    what head.lua leaves
-- Leaves   as quota.lua

local changed, begins = true, false
