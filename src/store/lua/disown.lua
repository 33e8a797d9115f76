-- A change was found whose state is gone: its hash no longer vouches for absences, nor the count for anybody.
-- KEYS: ckpt, then a state hash and a count hash for each entry.  ARGV: the value last set, an interaction for each.
for i = 2, #ARGV do
  redis.pcall('HDEL', KEYS[2 * i - 2], '0')
  redis.pcall('HDEL', KEYS[2 * i - 1], ARGV[i])
end
return redis.status_reply('OK')
