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
