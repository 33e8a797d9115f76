-- Set a count right after its complete hash was scanned page by page.
-- KEYS: ckpt, dirty, state hash, count hash.
-- ARGV: the value last set, target, interaction, the count found, the active states seen.
-- Answers 1 if it was set, 0 if anything moved meanwhile: a write marks its target, so what was seen still stands
-- only while the target is not dirty.
if redis.call('SISMEMBER', KEYS[2], ARGV[2]) == 1 then return 0 end
if redis.call('HGET', KEYS[3], '0') ~= 'full' then return 0 end
if redis.call('HGET', KEYS[4], ARGV[3]) ~= ARGV[4] then return 0 end
redis.call('HSET', KEYS[4], ARGV[3], ARGV[5])
return 1
