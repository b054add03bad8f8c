-- Stores quotas, or forgets them. If that changes nothing, nobody is requeued.
--
-- ARGV[6]    the quotas as text, '' to forget them
-- Returns    answer, if nothing changes

if (call('GET', QUOTAS) or '') == ARGV[6] then
  if restored then write() end
  return answer()
end
if ARGV[6] == '' then
  call('DEL', QUOTAS)
else
  call('SET', QUOTAS, ARGV[6])
end
