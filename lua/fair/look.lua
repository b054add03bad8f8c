-- Looks at the queue's clock. Writes nothing.
--
-- Returns    the head, '' for none; the offset less the server's time; 0

return { head or '', queue.offset - now, 0 }
