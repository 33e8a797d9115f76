-- Begin to recount the states of a complete hash while writers go on: from now on each of them saves the state that a user
-- had, before it flips for the first time. Writers keep count − active states constant, so that this difference may be
-- measured on the states as they are now, however long it takes to page through them.
-- KEYS: ckpt, state hash, count hash, saved states.  ARGV: the value last set, interaction, how long the saved states are
-- kept (ms).  Answers the count; '' when the hash is not complete, or its count is not known to be a number.
local count = redis.call('HGET', KEYS[3], ARGV[2])
if redis.call('HGET', KEYS[2], '0') ~= 'full' or not count or not string.match(count, '^%-?%d+$') then return '' end
redis.call('UNLINK', KEYS[4])
redis.call('HSET', KEYS[4], '0', '')
redis.call('PEXPIRE', KEYS[4], ARGV[3])
redis.call('HSET', KEYS[3], '.old:' .. ARGV[2], KEYS[4])
return count
