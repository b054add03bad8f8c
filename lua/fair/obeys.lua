-- Has the caller let the queue obey the stored quotas, if it goes by older ones
-- and turns are held, or may have been lost: a look alone does not.
--
-- Takes    what quota.lua and narrow.lua leave
-- Returns  'QUOTA <text>', with the text that is stored. The queue was not changed

if text_changes() and (last > now or watermark ~= '') then return 'QUOTA ' .. knows end
