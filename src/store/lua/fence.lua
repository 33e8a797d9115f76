-- Opens every script of a lease holder. KEYS[1]: ckpt.  ARGV[1]: the value that this holder last set.
-- On a difference nothing is changed: the value found goes on proving what happened.
local held = redis.call('GET', KEYS[1])
if held ~= ARGV[1] then
  return redis.error_reply('FENCED ' .. (held or 'missing'))
end
