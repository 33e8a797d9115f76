-- Take the loader's lock of a target, and note what decides later whether its rows may be merged.
-- KEYS: ckpt, restoring, dirty, dirty:inflight, done, lock, cnt, then the state hash of each interaction with states.
-- ARGV: token, how long the lock holds (ms), target, how many interactions have states, their names…, then what is
--   wanted, three words each: 'count', interaction, ''; 'hash', number of the interaction from 1, ''; 'state' or 'write',
--   number of the interaction, user.
--   A hash need not be there when its count is 0. A state is known when its field is there, or its hash is full. To be
--   written, its count must be known besides, or its hash be partial.
-- Answers {'loaded'} when all that is wanted is known already; {'wait', 'lock' | 'run' | 'restore'} while somebody else
-- is loading, a run has the target in hand, or a restore is under way; {'locked', ckpt or '', '1' if the target is clean,
-- then for each interaction with states what its hash says of itself ('full', 'partial' or '') and '1' if the hash is there
-- and its count is known} when the caller is the loader.
local states = tonumber(ARGV[4])
local loaded, kept = true, {}
for i = 1, states do kept[i] = redis.call('HGET', KEYS[7 + i], '0') or '' end
for at = 5 + states, #ARGV, 3 do
  local what, of, user = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if what == 'count' then
    loaded = loaded and redis.call('HEXISTS', KEYS[7], of) == 1
  elseif what == 'hash' then
    local i = tonumber(of)
    loaded = loaded and (redis.call('EXISTS', KEYS[7 + i]) == 1 or redis.call('HGET', KEYS[7], ARGV[4 + i]) == '0')
  else
    local i = tonumber(of)
    loaded = loaded and (kept[i] == 'full' or redis.call('HEXISTS', KEYS[7 + i], user) == 1)
    if what == 'write' then
      loaded = loaded and (kept[i] == 'partial' or redis.call('HEXISTS', KEYS[7], ARGV[4 + i]) == 1)
    end
  end
end
if loaded then return { 'loaded' } end
if redis.call('EXISTS', KEYS[2]) == 1 then return { 'wait', 'restore' } end
if redis.call('SISMEMBER', KEYS[4], ARGV[3]) == 1 or redis.call('SISMEMBER', KEYS[5], ARGV[3]) == 1 then
  return { 'wait', 'run' }
end
if not redis.call('SET', KEYS[6], ARGV[1], 'NX', 'PX', ARGV[2]) then return { 'wait', 'lock' } end
local clean = 1 - redis.call('SISMEMBER', KEYS[3], ARGV[3])
local answer = { 'locked', redis.call('GET', KEYS[1]) or '', tostring(clean) }
for i = 1, states do
  answer[#answer + 1] = kept[i]
  answer[#answer + 1] = tostring(redis.call('EXISTS', KEYS[7 + i]) * redis.call('HEXISTS', KEYS[7], ARGV[4 + i]))
end
return answer
