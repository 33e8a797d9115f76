-- Compare the checkpoint with what MySQL holds, and take it over if nothing was lost.
-- KEYS: ckpt, restoring.  ARGV: MySQL's token, MySQL's step, the caller's lease token.
-- Answers {verdict, the value found or ''}. Only 'ok' changes anything: ckpt becomes '<caller's token>.0'.
--   missing      there is none, while MySQL's is above zero
--   older        below MySQL's, or unreadable
--   interrupted  a restore was begun and not ended
--   newer        ckpt or restoring was set under a token that is not below the caller's
local held, restoring = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
local token, step, own = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local function read(checkpoint)
  local of_token, of_step = string.match(checkpoint or '', '^(%d+)%.(%d+)$')
  return tonumber(of_token), tonumber(of_step)
end
local held_token, held_step = read(held)
if (held_token or 0) >= own then return { 'newer', held } end
if (read(restoring) or 0) >= own then return { 'newer', restoring } end
if restoring then return { 'interrupted', held or '' } end
if held then
  if not held_token or held_token < token or (held_token == token and held_step < step) then
    return { 'older', held }
  end
elseif token > 0 or step > 0 then
  return { 'missing', '' }
end
redis.call('SET', KEYS[1], ARGV[3] .. '.0')
return { 'ok', held or '' }
