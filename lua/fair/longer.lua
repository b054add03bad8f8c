-- Lets the units' key live for as long as the queue, if there is one.
--
-- KEYS[last]  the units' logs, or another key if a Cluster keeps them elsewhere
--
-- Takes    what write.lua leaves

if told and KEYS[#KEYS] == key .. ':units' then
  call('PEXPIRE', KEYS[#KEYS], format('%d', math.ceil(wait_for(ends) / 1000) + 1))
end
