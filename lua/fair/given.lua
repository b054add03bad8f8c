-- Replies how many permits' turns were given back.
--
-- Returns  how many were given back, the others having passed or gone, or
--          being of another history

return freed
