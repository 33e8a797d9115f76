-- Give the loader's lock back, unless it is somebody else's by now.
-- KEYS: lock.  ARGV: token.
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return redis.status_reply('OK')
