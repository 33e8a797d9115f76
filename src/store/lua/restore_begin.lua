-- Begin a restore. KEYS: ckpt, restoring, dirty, dirty:inflight, done.
-- ARGV: ckpt as the check found it ('' when missing), the caller's lease token.
-- Refused with FENCED when ckpt is another by now, or a holder whose token is not below the caller's is restoring; what
-- a crashed restore left is taken over. ckpt is taken away, and goes on proving the loss so: a holder of old, who has lost
-- his lease and does not know it, could find in a Redis of the past the very value that he set last. Which targets are dirty
-- is forgotten: the restore marks again the target of every change that stays, so that no other is scanned whole.
local held, restoring = redis.call('GET', KEYS[1]) or '', redis.call('GET', KEYS[2])
local token = tonumber(restoring and string.match(restoring, '^(%d+)%.%d+$') or 0)
if held ~= ARGV[1] or token >= tonumber(ARGV[2]) then
  return redis.error_reply('FENCED ' .. held .. ' (restoring: ' .. (restoring or 'no') .. ')')
end
redis.call('SET', KEYS[2], ARGV[2] .. '.0')
redis.call('UNLINK', KEYS[1], KEYS[3], KEYS[4], KEYS[5])
return redis.status_reply('OK')
