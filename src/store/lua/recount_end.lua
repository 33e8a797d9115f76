-- End a recount, and add to the count what it was found to lack.
-- KEYS: ckpt, state hash, count hash, saved states.  ARGV: the value last set, interaction, what is added to the count.
-- Answers the count as it was before; '' when the hash was evicted, loaded or emptied meanwhile, so that nothing was measured.
local field = '.old:' .. ARGV[2]
local valid = redis.call('HGET', KEYS[3], field) == KEYS[4] and redis.call('EXISTS', KEYS[4]) == 1
  and redis.call('HGET', KEYS[2], '0') == 'full'
redis.call('HDEL', KEYS[3], field)
redis.call('UNLINK', KEYS[4])
local count = valid and redis.call('HGET', KEYS[3], ARGV[2])
if not count then return '' end
if ARGV[3] ~= '0' then redis.call('HINCRBY', KEYS[3], ARGV[2], ARGV[3]) end
return count
