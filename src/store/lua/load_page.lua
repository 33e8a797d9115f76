-- Merge rows of one interaction: a field that is present wins; an absent one comes from its row and loses its mark.
-- KEYS: as load_guard, then state hash, chg, chg:inflight.
-- ARGV: as load_guard, then '<interaction>:<target>:', then for each row user id, '1' | '0'.
for i = 6, #ARGV, 2 do
  if redis.call('HSETNX', KEYS[4], ARGV[i], ARGV[i + 1]) == 1 then
    redis.call('HDEL', KEYS[5], ARGV[5] .. ARGV[i])
    redis.call('HDEL', KEYS[6], ARGV[5] .. ARGV[i])
  end
end
return { 'ok' }
