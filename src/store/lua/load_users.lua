-- Merge the states of single users of one interaction, '0' for those without a row. As load_page; but the count is not
-- made from the states afterwards, so that it is dropped when a mark goes (nobody knows whether it held the change), and
-- when a row may hold a degraded write that is not replayed yet: the replay will find the state as it should be, and not
-- move the count.
-- KEYS: as load_guard, then state hash, chg, chg:inflight, cnt.
-- ARGV: as load_guard, then '<interaction>:<target>:', interaction, '1' if a hash that is not there is not to be made,
--   '1' if the journal has writes of the target, then for each user id, '1' | '0'.
if ARGV[7] == '1' and redis.call('EXISTS', KEYS[4]) == 0 then return { 'ok' } end
for i = 9, #ARGV, 2 do
  if redis.call('HSETNX', KEYS[4], ARGV[i], ARGV[i + 1]) == 1 then
    local mark = ARGV[5] .. ARGV[i]
    if redis.call('HDEL', KEYS[5], mark) + redis.call('HDEL', KEYS[6], mark) > 0 or ARGV[8] == '1' then
      redis.call('HDEL', KEYS[7], ARGV[6])
    end
  end
end
return { 'ok' }
