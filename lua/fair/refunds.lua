-- Settles turns, and gives turns back: then what they reserved and did not use.
-- Of turns that are settled it cancels debts of units that lie ahead, the newest
-- first. The rest is taken out at the slot of the turn.
--
-- Takes    what owed.lua leaves
-- Leaves   again, for release.lua: what is given back of each log, calls last

unit = count + 1
go_to(0)
local places = {}
for from = asked_from, #asked, width do -- by the sequence of calls
  places[from] = asked[from] == sub(name, 1, 8) and place_of(asked[from + 2], asked[from + 1] + 0)
end

-- Gives back to the log that is set what was granted at a place, and to that of
-- a flow: the parts behind take that for a grant of this epoch.
local function gives_back(place_in, permits, unused, of)
  local n = #argv
  argv[n + 1], argv[n + 2], argv[n + 3] = sub(name, 1, 8), place_in, permits
  argv[n + 4], argv[n + 5], argv[n + 6] = sub(name, 10) .. '0', unused, of or '0'
end

local function cancels_debts(unused)
  local l = logs[unit]
  local part = math.min(unused, owed[unit])
  owed[unit] = owed[unit] - part
  unused = unused - part
  local owes = owes_of(l)
  for i = #owes, 1, -1 do
    part = math.min(unused, is_ahead(owes[i][1]) and owes[i][2] or 0)
    if part > 0 then
      gives_back(owes[i][1], part, '1')
      owes[i][2], unused = owes[i][2] - part, unused - part
    end
  end
  return unused
end

again = function()
  unit = unit - 1
  if unit < 0 then return false end
  at_least = unit == 0 and tail_of(1) or 0
  go_to(unit)
  for from = asked_from, #asked, width do
    local unused = asked[from + 5 + unit] + 0
    if places[from] and unused > 0 then
      if unit > 0 and asked[from + 3] == '2' then unused = cancels_debts(unused) end
      local in_any_case, of = asked[from + 3] == '0' and '0' or '1', unit == 0 and asked[from + 4] or '0'
      if unused > 0 then gives_back(places[from], unused, in_any_case, of) end
    end
  end
  return #argv >= first or unit == 0 and freed > 0 or again()
end
