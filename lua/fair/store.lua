-- Stores quotas, or forgets them. If that changes nothing, nobody is requeued.
--
-- ARGV[7]    the quotas as text, '' to forget them
-- Returns    answer, if nothing changes

if (call('GET', QUOTAS) or '') == ARGV[7] then
  if restored then write() end
  return answer()
end
if ARGV[7] == '' then
  call('DEL', QUOTAS)
else
  call('SET', QUOTAS, ARGV[7])
end
