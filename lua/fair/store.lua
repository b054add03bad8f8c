-- Stores quotas, or forgets them. If that changes nothing, nobody is requeued.
--
-- ARGV[REST + 2]  the quotas as text, '' to forget them
-- Returns    answer, if nothing changes

if (call('GET', QUOTAS) or '') == ARGV[REST + 2] then
  if restored then write() end
  return answer(restored)
end
if ARGV[REST + 2] == '' then
  call('DEL', QUOTAS)
else
  call('SET', QUOTAS, ARGV[REST + 2])
end
