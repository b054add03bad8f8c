-- Lets a question leave the queue as it is.
--
-- Takes    what fields.lua leaves

relocates = false
