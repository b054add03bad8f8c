-- Notes that turns were given back to a log.
--
-- Takes    what release.lua leaves

logs[at].dirty = logs[at].dirty or given > 0
