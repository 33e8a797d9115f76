-- Put what MySQL holds of some states into Redis, unless a pending change is newer, and mark them in any case.
-- KEYS: ckpt, dirty, chg, chg:inflight, then a state hash and a count hash for each state.
-- ARGV: the value last set, the next value (the same while more of the batch follows), then for each state interaction, target,
--   user, '1' | '0', and the time of its row.
-- A state that was absent from a hash which is not complete makes the count unknown; else the count moves with the state.
for i = 3, #ARGV, 5 do
  local interaction, target, user, state, row = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local at = 5 + (i - 3) / 5 * 2
  local states, counts = KEYS[at], KEYS[at + 1]
  local field = interaction .. ':' .. target .. ':' .. user
  local fresh = time_of(redis.call('HGET', KEYS[3], field))
  local pending = math.max(fresh, time_of(redis.call('HGET', KEYS[4], field)))
  redis.call('SADD', KEYS[2], target)
  if fresh < tonumber(row) then redis.call('HSET', KEYS[3], field, row) end
  local old = redis.pcall('HGET', states, user)
  -- Of a key of another type the run says what it is.
  if type(old) ~= 'table' and old ~= state and pending <= tonumber(row) then
    local complete = redis.call('HGET', states, '0') == 'full'
    redis.call('HSET', states, user, state)
    if not old and not complete then
      redis.call('HDEL', states, '0')
      redis.pcall('HDEL', counts, interaction)
    elseif (old or '0') ~= state and redis.pcall('HEXISTS', counts, interaction) == 1 then
      redis.pcall('HINCRBY', counts, interaction, state == '1' and 1 or -1)
    end
  end
end
redis.call('SET', KEYS[1], ARGV[2])
return redis.status_reply('OK')
