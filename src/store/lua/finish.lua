-- End a run: nothing is in flight any more.
-- KEYS: ckpt, dirty:inflight, chg:inflight, done.  ARGV: the value last set.
-- Answers {targets, changes} still in flight; only when both are 0 are the finished targets forgotten.
local targets, changes = redis.call('SCARD', KEYS[2]), redis.call('HLEN', KEYS[3])
if targets == 0 and changes == 0 then redis.call('UNLINK', KEYS[4]) end
return { targets, changes }
