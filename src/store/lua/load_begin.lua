-- Take the loader's lock of a target, and note what decides later whether its rows may be merged.
-- KEYS: ckpt, restoring, dirty, dirty:inflight, done, lock, cnt, then the state hash of each interaction with states.
-- ARGV: token, how long the lock holds (ms), target, whether hashes must be complete ('1' | '0'), how many interactions
--   have states, their names…, then the names of counters….
-- Answers {'loaded'} when all is known already; {'wait'} while somebody else is loading, a run has the target in hand,
-- or a restore is under way; {'locked', ckpt or '', '1' if the target is clean} when the caller is the loader.
local states = tonumber(ARGV[5])
local loaded = true
for i = 6, #ARGV do
  if redis.call('HEXISTS', KEYS[7], ARGV[i]) == 0 then loaded = false end
end
if ARGV[4] == '1' then
  for i = 1, states do
    if redis.call('HGET', KEYS[7 + i], '0') ~= 'full' then loaded = false end
  end
end
if loaded then return { 'loaded' } end
if redis.call('EXISTS', KEYS[2]) == 1 then return { 'wait' } end
if redis.call('SISMEMBER', KEYS[4], ARGV[3]) == 1 or redis.call('SISMEMBER', KEYS[5], ARGV[3]) == 1 then
  return { 'wait' }
end
if not redis.call('SET', KEYS[6], ARGV[1], 'NX', 'PX', ARGV[2]) then return { 'wait' } end
local clean = 1 - redis.call('SISMEMBER', KEYS[3], ARGV[3])
return { 'locked', redis.call('GET', KEYS[1]) or '', tostring(clean) }
