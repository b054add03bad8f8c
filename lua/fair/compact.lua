-- Makes room in the ring before it is full. What has passed goes, but for one
-- cell. If that is not enough, cells merge: the newer one stays, as its total
-- counts both. A merge only makes a slot later.
--
-- Takes    what grant.lua leaves: closed, oldest, base, marks, crowded, last,
--          kept, period, short; granted and must: nothing is written for a
--          refusal; log, of cells.lua, if the ring has too little room for it; the
--          windows in argv[6..windows_end]
-- Leaves   the same, changed
--
-- Cells merge in steps, until 64 places are free: first those that read the same
-- when joined (a row of them), and those beyond the longest window, to 1/128 of
-- the queue, or coarser; then those that share a place on the grid of the
-- shortest window that reaches as far, or a wider one; ahead of the clock on one
-- to 1/32 of what is queued, or coarser. What has passed never merges into what
-- lies ahead. So waiters who leave leave little.

if closed - oldest > CELLS - 32 and (granted > 0 or must) then
  local ring, at, count = log, oldest % CELLS * WIDTH, closed - oldest
  if not ring then
    ring = call('GETRANGE', key, size, size + CELLS * WIDTH - 1)
    ring = sub(ring, at + 1) .. sub(ring, 1, at)
  end
  local slots, totals, gone = {}, {}, 0
  for i = 1, count do
    local a, b, c, d, e, f, g, h, i1, j, k, l, m, n = byte(ring, i * WIDTH - 14, i * WIDTH - 1)
    slots[i] = ((((((a * 94 + b) * 94 + c) * 94 + d) * 94 + e) * 94 + f) * 94 + g) * 94 + h - 2162986556113515
    totals[i] = ((((i1 * 94 + j) * 94 + k) * 94 + l) * 94 + m) * 94 + n - 244792502955
    totals[i] = sequence - (sequence - totals[i]) % 689869781056
  end
  while gone + 1 < count and slots[gone + 2] + kept <= now do gone = gone + 1 end -- one that has passed stays
  if gone > 0 then base, oldest = totals[gone], oldest + gone end

  local left_over, extent, near, far, numbers = count - gone, last - slots[gone + 1], 0, 128, {}
  local apart, stays, merged = count, nil, nil
  for v = 6, windows_end do numbers[v] = argv[v] + 0 end -- a conversion takes 0.1 µs
  while apart > gone and last - slots[apart] <= period do apart = apart - 1 end -- those behind have so much room
  while far > 8 and far > CELLS - 64 - (count - apart) do far = far / 2 end
  while (left_over > CELLS - 32 or stays and left_over > CELLS - 64) and near < 60 do
    if stays and far > 16 then
      far = far / 2
    elseif stays then
      near = near + 1
      far = math.max(1, 64 / 2 ^ near)
    end
    stays, merged = { count }, {}
    local newer, wide, fine = count, 1, numbers[8]
    while 2 * wide * period * far <= extent * numbers[8] do wide = 2 * wide end -- beyond the longest window
    while fine * (last - now) < period * far and fine < period do fine = 2 * fine end -- ahead of the clock
    for i = count - 1, gone + 1, -1 do
      local age, cells, unit, row = last - slots[i], nil, 1, false
      if coarse <= now and not merged[newer] and byte(ring, i * WIDTH) == 46 and byte(ring, newer * WIDTH) == 46 then
        local behind, gap = totals[newer] - totals[i], 0
        for v = 6, windows_end, 3 do
          local times = floor(behind / numbers[v])
          gap, behind = gap + times * numbers[v + 1], behind - times * numbers[v]
        end
        row = behind == 0 and gap == slots[newer] - slots[i] and gap > 0
      end
      if age > period then
        cells, unit = numbers[8], wide
      elseif near > 0 then
        for v = 6, windows_end, 3 do
          if age <= numbers[v + 1] then cells, unit = numbers[v + 2], 2 ^ (near - 1) end
        end
      end
      if cells and slots[i] > now and fine > numbers[8] and cells < fine * unit then cells, unit = fine, 1 end
      local joins, front = row, slots[i]
      if not row and coarse <= now and byte(ring, i * WIDTH) == 46 then -- all of a row joins, or nothing
        local behind = math.max(0, totals[i] - (totals[i - 1] or base) - 1)
        for v = 6, windows_end, 3 do
          local times = floor(behind / numbers[v])
          front, behind = front - times * numbers[v + 1], behind - times * numbers[v]
        end
      end
      if not row and cells and (front > now or slots[newer] <= now) then
        local phase, other = front % period, slots[newer] % period
        joins = floor(((front - phase) / period * cells + floor(phase * cells / period)) / unit)
          == floor(((slots[newer] - other) / period * cells + floor(other * cells / period)) / unit)
      end
      if not joins or i == gone + 1 then
        stays[#stays + 1], newer = i, i
      elseif not row then
        merged[newer] = true
      end
    end
    left_over = #stays
  end

  local next_marks, from, shift = '', 1, 0
  if stays then
    local pieces, dense = {}, 0
    for i = left_over, 1, -1 do
      local cell = stays[i]
      pieces[left_over - i + 1] = sub(ring, cell * WIDTH - 14, cell * WIDTH - 1)
        .. (merged[cell] and '~' or sub(ring, cell * WIDTH, cell * WIDTH))
      if slots[cell] + short > last then dense = dense + 1 end
    end
    if near > 0 and dense > 48 then crowded = last + short end
    closed, oldest = left_over, 0
    call('SETRANGE', key, size, table.concat(pieces))
  elseif log then -- nobody has written it yet
    call('SETRANGE', key, size, sub(ring, gone * WIDTH + 1))
    closed, oldest = left_over, 0
  else
    shift = oldest - oldest % CELLS
    closed, oldest = closed - shift, oldest - shift
  end
  for w = 6, windows_end, 3 do
    local own, cursor = sub(marks, from, from + 15) + 0, sub(marks, from + 17, from + 20) - shift
    if stays then
      cursor = left_over
      while cursor > 0 and totals[stays[left_over - cursor + 1]] > own - argv[w] do cursor = cursor - 1 end
    end
    if cursor < oldest then cursor = oldest end
    next_marks, from = format('%s%16d %4d\n', next_marks, own, cursor), from + 22
  end
  marks, changed = next_marks, true
end
