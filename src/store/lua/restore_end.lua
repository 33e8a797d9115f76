-- End a restore: the partition is the caller's, as after a check that found nothing lost.
-- KEYS: as restore_guard.  ARGV: as restore_guard, then the caller's first checkpoint.
redis.call('SET', KEYS[1], ARGV[3])
redis.call('DEL', KEYS[2])
return redis.status_reply('OK')
