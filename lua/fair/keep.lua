-- Leaves units under the windows that they have.
--
-- Takes    what fields.lua leaves

adopts = false
