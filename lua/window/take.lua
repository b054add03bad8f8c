-- Takes permits, in order, each request all or nothing. If there is no rule,
-- the caller's becomes the rule. If no request fits the rate, nothing is
-- written.
--
-- KEYS     see head
-- ARGV[1]  rate     ARGV[2]  interval in ms     ARGV[3]  type
-- ARGV[4]  keepAliveTime in ms
-- then     for each request the grant it asks for
-- Returns  { rate, then for each request: 0 granted, -1 more than the rate,
--          else the wait in µs until so many permits are free }

local own_rate, own_interval, own_type, own_keep_alive = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local ruled = load()
if not ruled then
  rate, interval, keep_alive = tonumber(own_rate), tonumber(own_interval), tonumber(own_keep_alive)
  per_client = own_type == '1'
end

local reply, asked, fits = { rate }, {}, false
for i = 5, #ARGV do
  asked[i] = permits_of(ARGV[i])
  reply[i - 3] = -1
  fits = fits or asked[i] <= rate
end
if not fits then return reply end

count()
settle()
if not ruled then
  redis.call('HSET', hash, 'rate', own_rate, 'interval', own_interval,
    'type', own_type, 'keepAliveTime', own_keep_alive)
end

local function grant(member, n)
  redis.call('ZADD', grants_key, decimal(now_up), member)
  if totals and #totals == held then totals[held + 1] = (totals[held] or 0) + n end
  held, left = held + 1, left - n
end

for i = 5, #ARGV do
  local n = asked[i]
  if n <= rate then
    reply[i - 3] = wait_for(n)
    if reply[i - 3] == 0 then grant(ARGV[i], n) end
  end
end
save()
return reply
