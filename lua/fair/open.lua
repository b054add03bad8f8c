-- Reads the header and decides which way to go.
--
-- Takes    what fields.lua leaves
-- Leaves   text, the header; the fields that it has; fresh, unusual
--
-- The usual way is for those who ask under the windows of the caller before, on
-- the same server, and know no more of the queue than there is. The
-- queue's clock runs as the server's does.

text = call('GETRANGE', key, '0', argv[4])

local knows_reset = watermark == '' and byte(argv[3], 24) ~= 48 -- not '0': see resets.lua

if text == '' then
  fresh, unusual = true, watermark ~= '' or left ~= -2 or p == 0 or knows_reset
elseif p == 0 or sub(text, 1, p) ~= head or #text < size or sub(text, p + 3, p + 9) ~= place or left < 0 then
  unusual = true
else
  mark, flag, name = sub(text, p + 1, p + 1), sub(text, p + 2, p + 2), sub(text, p + 11, p + 28)
  sequence, clock, last = sub(text, p + 29, p + 44) + 0, sub(text, p + 46, p + 61) + 0, sub(text, p + 63, p + 78) + 0
  offset, crowded = sub(text, p + 80, p + 95) + 0, sub(text, p + 114, p + 129) + 0
  coarse = sub(text, p + 131, p + 146) + 0
  closed, oldest, marks = sub(text, p + 165, p + 168) + 0, sub(text, p + 170, p + 173) + 0, sub(text, p + 192)
  now = server + offset
  if mark == '+' or not (now >= clock and now < MOST_SLOT and last < MOST_SLOT and sequence < MOST_SLOT
    and closed >= oldest and closed - oldest <= CELLS) then
    unusual = true -- or damaged: see header.lua
  elseif watermark == '' then
    unusual = mark ~= '-' or knows_reset or not match(name, '^%w%w%w%w%w%w%w%w %w+ $')
  elseif watermark ~= sub(text, p + 11, p + 61) then
    -- What the caller saw must be of this history.
    unusual = sub(watermark, 1, 18) ~= name or sub(watermark, 19, 34) + 0 > sequence or sub(watermark, 36) + 0 > clock
  end
end

-- Turns of others may not obey the windows that the caller's imply: see
-- windows.lua.
if coarse > now and sub(argv[3], -1) ~= '-' then unusual = true end

if not unusual and now - clock >= SILENCE then
  local info = redis.pcall('INFO', 'replication')
  local replid = type(info) == 'string' and match(info, 'master_replid:(%w%w%w%w%w)')
  if fresh then
    name = sub(argv[3], 1, 8) .. ' ' .. (replid or sub(argv[3], 1, 5)) .. sub(argv[3], 6, 8) .. ' '
  else
    unusual = replid and replid ~= sub(name, 10, 14)
  end
end
