-- Writes the rule.
--
-- KEYS     see head
-- ARGV[1]  'try': only where there is none. 'set': in any case, and forget all grants. 'update': only where there is one, and forget all grants.
--          'keep': only where there is one, and keep the grants of the last interval, unless the type changes
-- ARGV[2]  rate     ARGV[3]  interval in ms     ARGV[4]  type     ARGV[5]  keepAliveTime in ms
--
-- Returns  1 if it was written, else 0: nothing was changed
--
-- It adds up all grants it keeps, however many: about 0.2 ms for each thousand.

local op, new_rate, new_interval, new_type, new_keep_alive = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local old = redis.call('HMGET', hash, 'type', 'keepAliveTime')
local ruled = old[1] and true or false
if op ~= 'set' and ruled == (op == 'try') then return 0 end
if op == 'try' and redis.call('EXISTS', hash) == 1 then
  error('STATE the hash holds something else', 0)
end

rate, interval, keep_alive = tonumber(new_rate), tonumber(new_interval), tonumber(new_keep_alive)
per_client = new_type == '1'
local keep = op == 'keep' and old[1] == new_type
if keep then
  count()
  left = rate - add_up(held)
end

redis.call('HSET', hash, 'rate', new_rate, 'interval', new_interval, 'type', new_type, 'keepAliveTime', new_keep_alive)
if keep_alive == 0 and (tonumber(old[2] or '0') or 0) > 0 then
  redis.call('PERSIST', hash)
end
if keep then
  if lapsed > 0 then
    redis.call('ZREMRANGEBYRANK', grants_key, 0, lapsed - 1)
  end
  save()
  return 1
end
if op ~= 'try' then
  redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
end
if keep_alive > 0 then
  redis.call('PEXPIRE', hash, new_keep_alive)
end
return 1
