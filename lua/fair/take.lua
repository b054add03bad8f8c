-- Takes permits: works requests off in order.
--
-- KEYS, ARGV[1..3]  see head.lua        ARGV[4..6]  see hot.lua
-- ARGV[7..]  for each run of requests for equally many permits: how many
--            permits, longest wait, how many requests; negative where that is
--            the longest wait of the first only, and others may wait longer
--
-- Returns  a number: all of one run are refused; so long would the first wait
--          a text: one run in a plain state, granted at one slot, or where
--          most is 1 in a row up to it:
--            '<generation> <sequence> <clock> <newest slot>'
--          else { text, then for each run of answers: wait, how many, how much
--            longer each waits than the one before }. The number is negative
--            where they are refused, and a wait of -1 is that of a full queue.
--            The text is '' if nothing was written, else it goes on with
--            ' <end> <offset>' of the queue. At least one request is answered;
--            the rest is for the next call.
-- Errors   STATE: the key holds something else. Nothing was changed.

local queue = read()
local noted, lost = begin(queue)
local reply, granted = grant(queue)
local text, plain = '', true
if granted or noted or lost then
  local problem
  text, plain, problem = write(queue)
  if problem then return problem end
end
local whole = plain and not ARGV[10] and not reply[5] and math.abs(reply[3]) == ARGV[9] + 0
if whole and granted then return sub(text, 1, 59) end
if whole and text == '' and reply[2] >= 0 then return reply[2] end
reply[1] = text
return reply
