-- Frees permits that a script takes out of the zset.
--
-- What has lapsed was free already. It stays in the zset until somebody asks,
-- so that a release can still come out of it.
--
-- Takes    COUNTED, decimal; left_key, left_text, lapsed, lapsed_permits, left;
--          save
-- Leaves   free, freed   functions

local total = 0 -- freed by this run

-- Counts permits as free. Those of a lapsed grant were free already: left grows
-- where lapsed_permits would have to become less. save writes the difference.
local function free(permits)
  total, left = total + permits, left + permits
end

-- Writes what the run has freed. Where more have lapsed than count has added
-- up, the string says what is left of the whole zset, and grows by that.
local function freed()
  if lapsed <= COUNTED then
    save()
  elseif left_text then
    redis.call('INCRBY', left_key, decimal(total))
  end
end

