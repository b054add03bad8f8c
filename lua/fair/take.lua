-- Takes permits: works requests off in order.
--
-- KEYS, ARGV[1..3]  see head.lua        ARGV[4..6]  see hot.lua
-- ARGV[7..]  for each run of requests for equally many permits: how many
--            permits, longest wait, how many requests; negative where that is
--            the longest wait of the first only, and others may wait longer
--
-- Returns  a number: all of one run are refused; so far ahead is the first slot
--          a text: one run in a plain state, granted at one slot, or where
--          most is 1 in a row up to it:
--            '<generation> <epoch> <sequence> <clock> <newest slot>'
--          else { text, news, then for each run of answers: how far ahead of
--            the queue's clock, how many, how much further each is than the
--            one before }. How many is negative where they are refused, and -1
--            ahead is that of a full queue. The text is '' if nothing was
--            written, else see write.lua. The news are '' if there are none but
--            the text, else see clock.lua. At least one request is answered;
--            the rest is for the next call. Who saw another epoch gets the text
--            of the state even if nothing was written, so that the next refusal
--            goes straight.
-- Errors   STATE: the key holds something else. Nothing was changed.

local queue = read()
local noted, lost = begin(queue)
local reply, granted = grant(queue)
local text, plain, told = '', true, false
if granted or noted or lost then
  local problem
  text, plain, problem = write(queue)
  if problem then return problem end
elseif seen ~= '' and state and sub(seen, 1, 18) ~= sub(state, -68, -51) then
  local _, natural, newest = bounds(queue)
  text = position_of(queue, sub(state, -68), newest, in_server_time(queue, math.max(queue.ends, natural)))
  told = true -- of a clock that was written some time ago
end
if told or not is_quiet(queue) then
  reply[2] = news_of(queue)
elseif plain and not ARGV[10] and not reply[6] and math.abs(reply[4]) == ARGV[9] + 0 then
  if granted then return sub(text, 1, 68) end
  if text == '' and reply[3] >= 0 then return reply[3] end
end
reply[1] = text
return reply
