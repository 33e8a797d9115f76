-- Tell which targets of a partition may be unloaded: clean, and neither written nor loaded for so long.
-- KEYS: ckpt, restoring, dirty, dirty:inflight, done, then lock and cnt of each target.
-- ARGV: for how long (ms), targets….
-- Answers {ckpt or '', the time (Unix ms) since which they were not used, targets…}. What other programs keep without
-- saying when it was used is left alone. During a restore there is none.
local time = redis.call('TIME')
local since = time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(ARGV[1])
local answer = { redis.call('GET', KEYS[1]) or '', string.format('%.0f', since) }
if redis.call('EXISTS', KEYS[2]) == 1 then return answer end
for i = 2, #ARGV do
  local seen = redis.pcall('HGET', KEYS[3 + 2 * i], '.seen')
  seen = type(seen) == 'string' and tonumber(seen)
  if seen and seen <= since and redis.call('EXISTS', KEYS[2 + 2 * i]) == 0 then
    local clean = true
    for set = 3, 5 do clean = clean and redis.call('SISMEMBER', KEYS[set], ARGV[i]) == 0 end
    if clean then answer[#answer + 1] = ARGV[i] end
  end
end
return answer
