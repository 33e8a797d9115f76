-- Put targets among the claimed ones, to be scanned whole in this run.
-- KEYS: ckpt, dirty:inflight.  ARGV: the value last set, targets….  Answers how many were not there yet.
return redis.call('SADD', KEYS[2], unpack(ARGV, 2))
