-- Looks at the queue's clock. Writes nothing.
--
-- Returns    answer

return answer()
