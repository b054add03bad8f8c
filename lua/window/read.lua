-- Reads the rule and what is left under it. It writes nothing.
--
-- If more than COUNTED grants are held and more than COUNTED have lapsed, it
-- adds up COUNTED of the lapsed ones in each run and returns how far it came.
-- The caller asks again with that. If a grant was added or removed in between,
-- it starts over. Whoever adds one removes lapsed ones, so it comes to an end.
--
-- KEYS     see head
-- ARGV[1]  rate     ARGV[2]  interval in ms     ARGV[3]  type: the rule to
--          assume if there is none; or '' each
-- ARGV[4]  how far the run before came, as it returned it, or nothing: grants
--          ARGV[5]  their permits     ARGV[6]  the string then
--          ARGV[7]  the last of those grants
--
-- Returns  { rate, interval in ms, type, keepAliveTime in ms, permits left,
--          wait in µs for one permit }
--          or {}: there is no rule
--          or what ARGV[4] to ARGV[7] shall be; ask again
--
-- Takes    all that head, count and wait leave

local own_rate, own_interval, own_type = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local added, permits, then_left, last = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]

if not load() then
  if not own_rate then return {} end
  rate, interval, per_client, keep_alive = own_rate, own_interval, own_type == '1', 0
end
count()
if left_text and held > COUNTED and lapsed > COUNTED then
  local goes_on = added and then_left == left_text
    and redis.call('ZRANGE', grants_key, added - 1, added - 1)[1] == last
  if goes_on then
    local more = math.min(lapsed - added, COUNTED)
    permits = permits + permits_in(added, more)
    added = added + more
  else
    added, permits = COUNTED, lapsed_permits
  end
  if added < lapsed then
    return { added, permits, left_text, redis.call('ZRANGE', grants_key, added - 1, added - 1)[1] }
  end
  left = math.min(tonumber(left_text) + permits, rate - held)
end
return { rate, interval, per_client and 1 or 0, keep_alive, math.max(0, left), wait_for(1) }
