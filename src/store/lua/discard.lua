-- Take members out of the claimed set that are not targets; they are set aside in MySQL.
-- KEYS: ckpt, dirty:inflight.  ARGV: the value last set, members….
return redis.call('SREM', KEYS[2], unpack(ARGV, 2))
