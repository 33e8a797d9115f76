-- End a load: counts, completeness, and the lock is given back.
-- KEYS: as load_guard, then cnt, then the state hash of each interaction with states.
-- ARGV: as load_guard, then how long an empty target is remembered (ms) or '0' to make it complete, the largest hash to
--   count here, how many interactions have states, then for each of them its name, the active states that the
--   loader counted, and how many rows it merged, then for each counter its name and the count row.
-- Answers 'ok', or 'count' when a hash is too large to be counted here and the loader has not counted it ('-1'): its
-- count is dropped then, so that no writer changes it while the loader counts. 'again' when a hash holds fewer users
-- than were merged into it: it was evicted or deleted between two pages, and must not be called full.
local states = tonumber(ARGV[7])
local at, empty, uncounted = 8, true, false
for i = 1, states do
  local size = redis.call('HLEN', KEYS[4 + i])
  if size > 0 then empty = false end
  if size - redis.call('HEXISTS', KEYS[4 + i], '0') < tonumber(ARGV[at + 2]) then
    redis.call('DEL', KEYS[3])
    return 'again'
  end
  if size > tonumber(ARGV[6]) and ARGV[at + 1] == '-1' then
    redis.call('HDEL', KEYS[4], ARGV[at])
    uncounted = true
  end
  at = at + 3
end
if uncounted then return 'count' end
for i = at + 1, #ARGV, 2 do
  if tonumber(ARGV[i]) > 0 then empty = false end
end
local remember = empty and tonumber(ARGV[5]) > 0
at = 8
for i = 1, states do
  local active = tonumber(ARGV[at + 1])
  if redis.call('HLEN', KEYS[4 + i]) <= tonumber(ARGV[6]) then
    active = 0
    for _, state in ipairs(redis.call('HVALS', KEYS[4 + i])) do
      if state == '1' then active = active + 1 end
    end
  end
  redis.call('HSET', KEYS[4], ARGV[at], active)
  if not remember then redis.call('HSET', KEYS[4 + i], '0', 'full') end
  at = at + 3
end
for i = at, #ARGV, 2 do
  local held = redis.call('HGET', KEYS[4], ARGV[i])
  if not held or tonumber(held) < tonumber(ARGV[i + 1]) then redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1]) end
end
local time = redis.call('TIME')
redis.call('HSET', KEYS[4], '.seen', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
if remember then redis.call('PEXPIRE', KEYS[4], ARGV[5]) else redis.call('PERSIST', KEYS[4]) end
redis.call('DEL', KEYS[3])
return 'ok'
