local HEX = '0123456789abcdef'
local function bucket_at(histogram, slot)
  return floor(cell_at(histogram, slot) / 2 ^ histogram.level)
end
local function end_of(histogram, bucket)
  return start_of(histogram, (bucket + 1) * 2 ^ histogram.level) - 1
end
local function hex_at(histogram, bucket)
  return floor(bucket / 4) - floor(histogram.first / 4) + 1
end
local function permits_in(histogram, bucket)
  local text, width = histogram.text, histogram.width
  if width > 0 then
    local at = (bucket - histogram.first) * width
    return tonumber(sub(text, at + 1, at + width))
  end
  local at = hex_at(histogram, bucket)
  return floor(tonumber(sub(text, at, at), 16) / 2 ^ (bucket % 4)) % 2
end
local function counts_of(histogram, more)
  local counts, text, width, count = {}, histogram.text, histogram.width, histogram.count
  if width > 0 then
    for i = 1, count do counts[i] = tonumber(sub(text, (i - 1) * width + 1, i * width)) end
  elseif count > 0 then
    local skipped = histogram.first % 4 -- in the first digit
    local digit = floor(tonumber(sub(text, 1, 1), 16) / 2 ^ skipped)
    for i = 1, count do
      local at = skipped + i - 1
      if at % 4 == 0 then digit = tonumber(sub(text, at / 4 + 1, at / 4 + 1), 16) end
      counts[i] = digit % 2
      digit = floor(digit / 2)
    end
  end
  for i = 1, #more do counts[count + i] = more[i] end
  return counts
end
local function text_of(counts, bucket, width)
  local pieces, cells, digit = {}, {}, 0
  for i, permits in ipairs(counts) do
    local bit = (bucket + i - 1) % 4
    digit = digit + permits * 2 ^ bit
    if width > 0 then
      cells[#cells + 1] = sub(format('%12d', permits), -width)
    elseif bit == 3 or i == #counts then
      cells[#cells + 1] = sub(HEX, digit + 1, digit + 1)
      digit = 0
    end
    if #cells == 256 or i == #counts then
      pieces[#pieces + 1] = table.concat(cells)
      cells = {}
    end
  end
  return table.concat(pieces)
end
local function width_for(most) return most <= 1 and 0 or #format('%d', most) end
local function largest(counts)
  local most = 0
  for i = 1, #counts do if counts[i] > most then most = counts[i] end end
  return most
end
local function newest_bucket(histogram, upto)
  local text, width, first = histogram.text, histogram.width, histogram.first
  if width > 0 then
    text = sub(text, 1, (upto - first + 1) * width)
    local zeros = string.find(string.reverse(text), '[1-9]')
    return zeros and upto - floor((zeros - 1) / width)
  end
  local bucket = upto
  while bucket >= first and permits_in(histogram, bucket) == 0 do
    if bucket % 4 == 3 then
      local zeros = string.find(string.reverse(sub(text, 1, hex_at(histogram, bucket))), '[^0]')
      if not zeros then return nil end
      bucket = bucket - (zeros - 1) * 4
      if permits_in(histogram, bucket) > 0 then return bucket end
    end
    bucket = bucket - 1
  end
  return bucket >= first and bucket or nil
end
local function oldest_bucket(histogram, from)
  if from >= histogram.first + histogram.count then return nil end
  local text, width, first = histogram.text, histogram.width, histogram.first
  if width > 0 then
    local at = string.find(text, '[1-9]', (from - first) * width + 1)
    return at and first + floor((at - 1) / width)
  end
  local at = string.find(text, '[^0]', hex_at(histogram, from))
  local last = first + histogram.count - 1
  local bucket = at and max(from, (at - 1 + floor(first / 4)) * 4) or last + 1
  while bucket <= last and permits_in(histogram, bucket) == 0 do bucket = bucket + 1 end
  return bucket <= last and bucket or nil
end
local function drop_back(histogram, newest)
  histogram.count = newest - histogram.first + 1
  local text, width = histogram.text, histogram.width
  if width > 0 then
    histogram.text = sub(text, 1, histogram.count * width)
  else
    local at = hex_at(histogram, newest)
    local digit = tonumber(sub(text, at, at), 16) % 2 ^ (newest % 4 + 1)
    histogram.text = sub(text, 1, at - 1) .. sub(HEX, digit + 1, digit + 1)
  end
end
local function drop_front(histogram, first)
  local text, width = histogram.text, histogram.width
  if width > 0 then
    histogram.text = sub(text, (first - histogram.first) * width + 1)
  else
    local at, unit = hex_at(histogram, first), 2 ^ (first % 4)
    local digit = floor(tonumber(sub(text, at, at), 16) / unit) * unit
    histogram.text = sub(HEX, digit + 1, digit + 1) .. sub(text, at + 1)
  end
  histogram.first, histogram.count = first, histogram.count - first + histogram.first
end
local function append(histogram, more)
  if #more == 0 then return end
  local width, bucket, list = width_for(largest(more)), histogram.first + histogram.count, {}
  if histogram.count == 0 then
    histogram.width, histogram.text = max(width, histogram.width), ''
  elseif width > histogram.width then
    list = counts_of(histogram, more)
    more, bucket = list, histogram.first
    histogram.width, histogram.text, histogram.count = width, '', 0
  elseif histogram.width == 0 and bucket % 4 > 0 then -- the last digit has room
    local kept = min(bucket % 4, histogram.count)
    for i = 1, kept do list[i] = permits_in(histogram, bucket - kept + i - 1) end
    for i = 1, #more do list[kept + i] = more[i] end
    histogram.text, histogram.count = sub(histogram.text, 1, -2), histogram.count - kept
    more, bucket = list, bucket - kept
  end
  local cells = text_of(more, bucket, histogram.width)
  histogram.text, histogram.count = histogram.text .. cells, histogram.count + #more
end
local function set_counts(histogram, first, counts)
  histogram.first, histogram.count, histogram.width, histogram.text = first, 0, 0, ''
  append(histogram, counts)
end
local function take_out(histogram, bucket, permits)
  local held, text, width = permits_in(histogram, bucket), histogram.text, histogram.width
  if held < permits then return false end
  if width > 0 then
    local at = (bucket - histogram.first) * width
    local cell = sub(format('%12d', held - permits), -width)
    histogram.text = table.concat({ sub(text, 1, at), cell, sub(text, at + width + 1) })
  else
    local at = hex_at(histogram, bucket)
    local digit = tonumber(sub(text, at, at), 16) - permits * 2 ^ (bucket % 4)
    histogram.text = table.concat({ sub(text, 1, at - 1), sub(HEX, digit + 1, digit + 1), sub(text, at + 1) })
  end
  return true
end
