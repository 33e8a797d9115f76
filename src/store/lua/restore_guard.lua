-- Opens every later script of a restore, and advances it by one. KEYS[1]: ckpt.  KEYS[2]: restoring.
-- ARGV[1]: restoring as this holder last set it.  ARGV[2]: the next value.
-- When there is a checkpoint, or another value, nothing is changed: another owner is at work, or Redis lost writes again.
local held, restoring = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
if held or restoring ~= ARGV[1] then
  return redis.error_reply('FENCED ' .. (held or 'missing') .. ' (restoring: ' .. (restoring or 'no') .. ')')
end
redis.call('SET', KEYS[2], ARGV[2])
