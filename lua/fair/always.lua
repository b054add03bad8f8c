-- Lets the parts in braces run in any case.
--
-- Takes    what open.lua leaves

unusual = true
