-- Decide about changes: one that is newer than what MySQL holds stays with its state; any other goes with it.
-- KEYS: as restore_guard, then chg, chg:inflight, dirty, then for each change its state hash and its count hash.
-- ARGV: as restore_guard, then for each change field, interaction, target, user ('0' for a counter), and the time of its row
--   ('' for none). A counter has no row to compare with: it stays.
-- Answers {states dropped, changes that stay}. What stays is in chg afterwards, under its newest time, and its target is
-- dirty.
local dropped, kept = 0, 0
for i = 3, #ARGV, 5 do
  local field, interaction, target, user, row = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local at = 6 + (i - 3) / 5 * 2
  local states, counts = KEYS[at], KEYS[at + 1]
  local newest, claimed = redis.call('HGET', KEYS[3], field), redis.call('HGET', KEYS[4], field)
  if time_of(claimed) > time_of(newest) then newest = claimed end
  local stays
  if user == '0' then
    stays = redis.pcall('HGET', counts, interaction)
  else
    stays = redis.pcall('HGET', states, user) and time_of(newest) > (tonumber(row) or -1)
  end
  if stays then
    redis.call('SADD', KEYS[5], target)
    if claimed then
      redis.call('HSET', KEYS[3], field, newest)
      redis.call('HDEL', KEYS[4], field)
    end
    kept = kept + 1
  else
    redis.pcall('HDEL', counts, interaction)
    if user ~= '0' then
      redis.pcall('HDEL', states, '0')
      local gone = redis.pcall('HDEL', states, user)
      dropped = dropped + (type(gone) == 'number' and gone or 0)
    end
    redis.call('HDEL', KEYS[3], field)
    redis.call('HDEL', KEYS[4], field)
  end
end
return { dropped, kept }
