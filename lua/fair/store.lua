-- Stores quotas, or forgets them. If they are stored already, nothing is done.
--
-- ARGV[REST + 2]  the quotas as text, '' to forget them
-- Returns    answer, if nothing is done

if (call('GET', QUOTAS) or '') == ARGV[REST + 2] then return answer(false) end
if ARGV[REST + 2] == '' then
  call('DEL', QUOTAS)
else
  call('SET', QUOTAS, ARGV[REST + 2])
end
