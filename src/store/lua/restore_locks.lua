-- Drop loaders' locks: what was read under them is of the past.
-- KEYS: as restore_guard, then locks….  ARGV: as restore_guard.
for i = 3, #KEYS do redis.call('DEL', KEYS[i]) end
return redis.status_reply('OK')
