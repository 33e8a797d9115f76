-- Compare counts with the states of complete hashes, and set right those that differ.
-- KEYS: ckpt, then a state hash and a count hash for each entry.
-- ARGV: the value last set (or 'dry': then nothing is set right, only told), the largest hash to look at, how many states to read in one call, an interaction for each.
-- Answers {how many entries were looked at, then for each corrected one: its number from 0, before, after}.
-- A count that is not known is left to loading, and a hash that is not complete says nothing about its count.
local limit, budget = tonumber(ARGV[2]), tonumber(ARGV[3])
local answer = { #ARGV - 3 }
for i = 4, #ARGV do
  if budget <= 0 then
    answer[1] = i - 4
    break
  end
  budget = budget - 1
  local states, counts = KEYS[2 * i - 6], KEYS[2 * i - 5]
  local complete, held = redis.pcall('HGET', states, '0'), redis.pcall('HGET', counts, ARGV[i])
  if complete == 'full' and type(held) == 'string' then
    local size = redis.call('HLEN', states)
    if size <= limit + 1 then
      budget = budget - size
      local active = 0
      for _, state in ipairs(redis.call('HVALS', states)) do
        if state == '1' then active = active + 1 end
      end
      if held ~= tostring(active) then
        if ARGV[1] ~= 'dry' then redis.call('HSET', counts, ARGV[i], active) end
        answer[#answer + 1] = i - 4
        answer[#answer + 1] = held
        answer[#answer + 1] = active
      end
    end
  end
end
return answer
