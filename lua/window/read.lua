-- Reads the rule and what is left under it. It writes nothing.
--
-- KEYS     see head
-- ARGV[1]  rate     ARGV[2]  interval in ms     ARGV[3]  type: the rule to
--          assume if there is none; or '' each
-- Returns  { rate, interval in ms, type, keepAliveTime in ms, permits left,
--          wait in µs for one permit }
--          or {}: there is no rule

local own_rate, own_interval, own_type = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]

if not load() then
  if not own_rate then return {} end
  rate, interval, per_client, keep_alive = own_rate, own_interval, own_type == '1', 0
end
count()
return { rate, interval, per_client and 1 or 0, keep_alive, math.max(0, left), wait_for(1) }
