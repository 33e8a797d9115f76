-- Drop every state without a change, and counts and completeness with them, after all changes are decided about.
-- KEYS: as restore_guard, then chg, dirty, then a state hash and its count hash for each entry.
-- ARGV: as restore_guard, then the largest hash to go through here, how many states to go through in one call, then for each
--   entry interaction, target.
-- Answers {how many entries were looked at, states dropped, then the numbers from 0 of those that are too large: these have
-- lost count and completeness, and are left to be gone through page by page}.
-- A target that is not dirty has no change: every change that stays has marked its target, and every writer does.
local limit, budget = tonumber(ARGV[3]), tonumber(ARGV[4])
local answer = { (#ARGV - 4) / 2, 0 }
for i = 5, #ARGV, 2 do
  local number = (i - 5) / 2
  if budget <= 0 then
    answer[1] = number
    break
  end
  budget = budget - 1
  local states, counts = KEYS[i], KEYS[i + 1]
  local size = redis.pcall('HLEN', states)
  -- A key of another type is nobody's states.
  if type(size) == 'number' then
    size = size - redis.call('HDEL', states, '0')
    redis.pcall('HDEL', counts, ARGV[i])
    if redis.call('SISMEMBER', KEYS[4], ARGV[i + 1]) == 0 then
      redis.call('UNLINK', states)
      answer[2] = answer[2] + size
    elseif size > limit then
      answer[#answer + 1] = number
    else
      budget = budget - size
      local prefix = ARGV[i] .. ':' .. ARGV[i + 1] .. ':'
      answer[2] = answer[2] + drop_unmarked(KEYS[3], states, prefix, redis.call('HKEYS', states))
    end
  end
end
return answer
