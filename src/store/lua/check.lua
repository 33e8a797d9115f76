-- Compare the checkpoint with what MySQL holds, and take it over if nothing was lost.
-- KEYS: ckpt, restoring.  ARGV: MySQL's token, MySQL's step, the caller's lease token.
-- Answers {verdict, the checkpoint found or ''}. Only 'ok' changes anything: ckpt becomes '<caller's token>.0'.
--   lost       below MySQL's, missing while MySQL's is above zero, or unreadable
--   restoring  a restore is under way
--   newer      set under a token that is not below the caller's
local held = redis.call('GET', KEYS[1])
if redis.call('EXISTS', KEYS[2]) == 1 then
  return { 'restoring', held or '' }
end
local token, step, own = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if held then
  local held_token, held_step = string.match(held, '^(%d+)%.(%d+)$')
  held_token, held_step = tonumber(held_token), tonumber(held_step)
  if not held_token or held_token < token or (held_token == token and held_step < step) then
    return { 'lost', held }
  end
  if held_token >= own then
    return { 'newer', held }
  end
elseif token > 0 or step > 0 then
  return { 'lost', '' }
end
redis.call('SET', KEYS[1], ARGV[3] .. '.0')
return { 'ok', held or '' }
