-- Keeps how a log stands.
--
-- Takes    what each.lua and status.lua leave

stood[unit] = { available = math.max(0, available), queued = math.max(0, queued), ahead = ahead }
