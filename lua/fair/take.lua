-- Takes permits: works requests off in order.
--
-- KEYS, ARGV[1..]  see head.lua and grant.lua
--
-- Returns  a number: all of one run are refused; so far ahead is the first slot
--          a text: one run was granted:
--            '<generation> <epoch> <sequence> <clock> <newest slot>', and if one
--            of them is not 0 ' <offset> <how much further each is>'
--          else { text, news, then for each run of answers: how far ahead of
--            the queue's clock, how many, how much further each is than the
--            one before }. How many is negative where they are refused; -1
--            ahead is that of a full queue, -2 one that goes over the share of
--            its flow. The text is '' if nothing was written, else as above. The
--            news are '' if there are none but the text, else see clock.lua. At
--            least one request is answered; the rest is for the next call.
-- Errors   STATE: the key holds something else. Nothing was changed.

if not answers and not unusual and not argv[first + 4] and math.abs(together) == argv[first + 3] + 0 then
  if together > 0 then
    return offset == 0 and step == 0 and told or told .. format(' %d %d', offset, step)
  end
  if ahead >= 0 then return ahead end
end
answers = answers or { '', '', ahead, together, step }
answers[1] = told and told .. format(' %d 0', offset) or ''
if unusual and (told or not fresh) then answers[2] = news() end
return answers
