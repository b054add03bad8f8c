-- Writes the rule.
--
-- KEYS     see head
-- ARGV[1]  'try': each field only where it is missing
--          'set': in any case, and forget all grants
--          'update': only if there is a rule, and forget all grants
--          'keep': only if there is a rule, and keep the grants of the last
--          interval, unless the type changes
-- ARGV[2]  rate     ARGV[3]  interval in ms     ARGV[4]  type
-- ARGV[5]  keepAliveTime in ms
--
-- Returns  1 if the rule was written; for 'try', if the type was missing; else 0

local op, new_rate, new_interval, new_type, new_keep_alive = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local old = redis.call('HMGET', hash, 'type', 'keepAliveTime', 'rate', 'interval')
local old_type, old_keep_alive, old_rate, old_interval = old[1], old[2], old[3], old[4]

if op == 'try' then
  if old_type and old_keep_alive and old_rate and old_interval then return 0 end
  if not (old_type or old_keep_alive or old_rate or old_interval) and redis.call('EXISTS', hash) == 1 then
    error('STATE the hash holds something else', 0)
  end
  keep_alive = natural(old_keep_alive or new_keep_alive, 'keepAliveTime', 0, LONGEST)
  redis.call('HSET', hash, 'rate', old_rate or new_rate, 'interval', old_interval or new_interval,
    'type', old_type or new_type, 'keepAliveTime', old_keep_alive or new_keep_alive)
  if old_type then return 0 end
  if keep_alive > 0 then redis.call('PEXPIRE', hash, decimal(keep_alive)) end
  return 1
end

if op ~= 'set' and not old_type then return 0 end
rate, interval, keep_alive = tonumber(new_rate), tonumber(new_interval), tonumber(new_keep_alive)
per_client = new_type == '1'
local keep = op == 'keep' and old_type == new_type
if keep then
  count()
  left = rate - add_up(lapsed, held)
end

redis.call('HSET', hash, 'rate', new_rate, 'interval', new_interval, 'type', new_type, 'keepAliveTime', new_keep_alive)
if keep_alive == 0 and (tonumber(old_keep_alive or '0') or 0) > 0 then redis.call('PERSIST', hash) end
if keep then
  settle()
  save()
  return 1
end
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
if keep_alive > 0 then redis.call('PEXPIRE', hash, new_keep_alive) end
return 1
