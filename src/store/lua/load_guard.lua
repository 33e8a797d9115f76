-- Opens every script of a loader: its rows may be merged only while nothing has come between.
-- KEYS: ckpt, restoring, lock, …  ARGV: token, how long the lock holds (ms), ckpt as noted, '1' if the target was
-- clean then, …  Answers {'again'} when the loader must start over.
if redis.call('GET', KEYS[3]) ~= ARGV[1] then return { 'again' } end
local ckpt = redis.call('GET', KEYS[1]) or ''
local function holder(checkpoint) return string.match(checkpoint, '^(%d+)%.') or '' end
if redis.call('EXISTS', KEYS[2]) == 1 or holder(ckpt) ~= holder(ARGV[3])
  or (ARGV[4] ~= '1' and ckpt ~= ARGV[3]) then
  redis.call('DEL', KEYS[3])
  return { 'again' }
end
redis.call('PEXPIRE', KEYS[3], ARGV[2])
