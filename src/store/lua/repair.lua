-- Set right what reconciliation found in Redis, each entry only if it still is as it was found.
-- KEYS: ckpt, dirty, dirty:inflight, done, then a state hash and a count hash for each entry.
-- ARGV: the value last set, then for each entry target, interaction, what, and two values:
--   'fill'     user, state    an absent field of a full hash comes back
--   'count'    before, after  the count of a hash that is not full, or of a counter
--   'drop'     before, ''     the count beside a hash that is gone
-- A target that is dirty or in flight is left alone: it is not as it was found. Answers 1 or 0 for each entry.
local answer = {}
for i = 2, #ARGV, 5 do
  local at = 5 + (i - 2) / 5 * 2
  local states, counts = KEYS[at], KEYS[at + 1]
  local target, interaction, what, one, other = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local clean = true
  for set = 2, 4 do clean = clean and redis.call('SISMEMBER', KEYS[set], target) == 0 end
  local done = 0
  if clean then
    local kept = redis.pcall('HGET', states, '0')
    if what == 'fill' then
      if kept == 'full' then done = redis.call('HSETNX', states, one, other) end
    elseif redis.pcall('HGET', counts, interaction) == one then
      if what == 'count' and kept ~= 'full' then
        redis.call('HSET', counts, interaction, other)
        done = 1
      elseif what == 'drop' and redis.call('EXISTS', states) == 0 then
        done = redis.call('HDEL', counts, interaction)
      end
    end
  end
  answer[#answer + 1] = done
end
return answer
