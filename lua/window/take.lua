-- Takes permits, in order, each request all or nothing. Where there is no rule yet, the caller's becomes the rule.
--
-- KEYS     see head
-- ARGV[1]  rate     ARGV[2]  interval in ms     ARGV[3]  type     ARGV[4]  keepAliveTime in ms
-- then     for each request the grant it asks for, at most 128
--
-- Returns  { rate, then for each request: 0 granted, -1 more than the rate, else the wait in µs until so many permits are free }
--          or {}: old grants had to be cleared away, and nothing was decided; ask again

local own_rate, own_interval, own_type, own_keep_alive = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local ruled = load()
if not ruled then
  rate, interval, keep_alive = tonumber(own_rate), tonumber(own_interval), tonumber(own_keep_alive)
  per_client = own_type == '1'
end
count()
if not settle() then return {} end
if not ruled then
  redis.call('HSET', hash, 'rate', own_rate, 'interval', own_interval, 'type', own_type, 'keepAliveTime', own_keep_alive)
end

local reply = { rate }
for i = 5, #ARGV do
  local grant = ARGV[i]
  local n = permits_of(grant)
  local answer = -1
  if n <= rate then
    answer = wait_for(n)
  end
  if answer == 0 then
    redis.call('ZADD', grants_key, decimal(now_up), grant)
    if totals and #totals == held then
      totals[held + 1] = (totals[held] or 0) + n
    end
    held = held + 1
    left = left - n
  end
  reply[#reply + 1] = answer
end
save()
return reply
