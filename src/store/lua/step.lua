-- One step of the checkpoint, in the same MULTI as the reads it vouches for.
-- KEYS: ckpt.  ARGV: the value last set, the next value.
redis.call('SET', KEYS[1], ARGV[2])
return redis.status_reply('OK')
