local key, head, seen = KEYS[1], ARGV[1], ARGV[2]
local call, sub, format = redis.call, string.sub, string.format
local SILENCE = 100000
local MOST_LINES = 3075
