-- Forget in Redis what MySQL has committed. Twice is the same as once.
-- KEYS: ckpt, dirty:inflight, chg:inflight, done.
-- ARGV: the value last set, 'move' | 'keep', how many fields, fields…, targets….
-- 'move' takes the targets out of the claimed set; 'keep' leaves them there to be scanned.
-- Answers how many targets were acked for the first time in this run.
local fields = tonumber(ARGV[3])
for i = 4, 3 + fields, 1000 do
  redis.call('HDEL', KEYS[3], unpack(ARGV, i, math.min(i + 999, 3 + fields)))
end
local first = 0
for i = 4 + fields, #ARGV do
  if ARGV[2] == 'move' then
    local known = redis.call('SISMEMBER', KEYS[4], ARGV[i])
    first = first + redis.call('SMOVE', KEYS[2], KEYS[4], ARGV[i]) * (1 - known)
  elseif redis.call('SISMEMBER', KEYS[2], ARGV[i]) == 1 then
    first = first + redis.call('SADD', KEYS[4], ARGV[i])
  end
end
return first
