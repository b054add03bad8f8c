-- Writes what has changed: the sequence, the clock and the newest slot, the
-- windows' marks, the rest of the header, what is noted.
--
-- Takes    the fields of the header; fresh, unusual; kept, for how long a permit
--          counts; granted or must: something is to be written; marked: the
--          windows' marks have changed; changed: more of the header; front: its
--          first line; lives: up to when the key does in any case; settle and
--          wait_for, if unusual
-- Leaves   clock, as the state has it; life: for how long the key lives; told:
--          '<generation> <epoch> <sequence> <clock> <newest slot>', nil if nothing was
--          written
--
-- PSETEX writes a state whole as long as it has no cells. Else its parts are
-- written in place, and PEXPIRE runs if the key has to live for longer.

local told, life
if granted > 0 or must then
  local notes = unusual and settle()
  local whole = fresh or closed == 0 and mark == '-' and flag == ' '
  local needs = math.max(last + kept, lives)
  local late, fields = needs > ends, format('%16d %16d %16d', sequence, now, last)
  if late then
    ends, changed = needs, true
    if not whole then ends = ends + floor(kept / 64) end
  end
  local lasts = math.ceil((unusual and wait_for(ends) or ends - now) / 1000) + 1
  if lasts < left then lasts = left end -- a queue that ends sooner than limiters were told seems lost
  life = format('%d', lasts)
  local body, problem = fields, nil
  if changed or whole then
    body = fields .. format('\n%16d %16d %16d %16d %16d %4d %4d %16d\n', offset, ends, crowded, coarse, span,
      closed, oldest, base) .. marks
  elseif marked then
    body = fields .. sub(text, p + 79, p + 191) .. marks
  end
  if whole or unusual or front then body = mark .. flag .. place .. ' ' .. name .. body end
  if whole then
    local ring = closed > 0 and call('GETRANGE', key, size, '-1') or '' -- of this run: see grant.lua
    if notes then ring = ring .. string.rep(' ', CELLS * WIDTH - #ring) .. notes end
    body = head .. body .. ring
    problem = redis.pcall('PSETEX', key, life, body)
  else
    problem = redis.pcall('SETRANGE', key, (unusual or front) and p or p + 28, body)
  end
  if type(problem) == 'table' and problem.err then return redis.error_reply(problem.err) end
  if not whole then
    if notes then call('SETRANGE', key, size + CELLS * WIDTH, notes) end
    if late or must then call('PEXPIRE', key, life) end
  end
  if unusual then -- the clock may stand still, or be slow
    local units_left = redis.pcall('PTTL', key .. ':units')
    if type(units_left) == 'number' and units_left < lasts then redis.pcall('PEXPIRE', key .. ':units', life) end
  end
  told, clock = name .. fields, now
end
