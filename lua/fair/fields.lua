-- Names what is known of the queue, as if there were none.
--
-- Takes    what head.lua leaves
-- Leaves   server (its time), place (which server this is), left (ms that the
--          key has to live); now, the queue's clock; the fields of the header:
--          mark, flag, name ('<generation> <epoch> '), sequence, clock, last,
--          offset, ends, crowded, coarse, span, closed, oldest, base, marks;
--          fresh: there is no state yet; unusual: the parts in braces ran, see
--          fair/scripts.go; must: there is something to write in any case;
--          relocates: the caller may make the queue one of its windows; front:
--          the first line of the header has changed; lives: up to when the key
--          is to live at least; asking, for flows.lua; pace: how far turns are
--          apart at least for each permit; log, for compact.lua; at_least,
--          for grant.lua: nobody goes before; freed: how many turns were given
--          back; moves, slowed: see recover.lua; obeys: see windows.lua;
--          asked_units: see narrow.lua; asked and asked_from: the arguments behind
--          those of the windows;
--          and
--          for the parts in braces text, windows and what they define for
--          those behind

local left, time = call('PTTL', key), call('TIME')
local server = time[1] * 1000000 + time[2]

-- The server in 7 letters: where in memory its interpreter lies. The operating
-- system draws that anew for each process. Miniredis, which knows no
-- breakpoints, makes an interpreter for each run.
local place = redis.breakpoint and sub(tostring(redis), -10, -4) or '0000000'

-- On miniredis a key may also expire while a script runs. Redis does not let it.
if place == '0000000' and left >= 0 and left < 100 and call('PEXPIRE', key, format('%d', left + 100)) == 0 then
  left = -2
end

local now, mark, flag, name, fresh, unusual = server, '-', ' ', nil, false, false
local sequence, clock, last, offset, ends, crowded, coarse, span = 0, 0, 0, 0, 0, 0, 0, 0
local closed, oldest, base, marks = 0, 0, 0, ''
local must, relocates, front, lives, asking, pace, log = false, true, false, 0, nil, 0, nil
local at_least, freed, moves, slowed, adopts, obeys, units_change, asked_units = 0, 0, 0, false, true, false, {}, {}
local asked, asked_from = argv, first
local text, windows, label_in, wait_for, counts_for, settle, news, as_arguments, span_of, slow_up_to, is_ahead
local place_of, was_lost, read_cells, write_cells, cell_from, permits_in
