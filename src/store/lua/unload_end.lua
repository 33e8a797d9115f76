-- Unload targets of a partition that unload_begin told of, unless anything has moved since.
-- KEYS: ckpt, restoring, dirty, dirty:inflight, done, then for each target its lock, its cnt, and the state hash of each
--   interaction with states.
-- ARGV: ckpt as noted, the time (Unix ms) since which they were not used, how many interactions have states, how many
--   counters there are, their names…, then for each target its id and the count row of each counter: a counter that is
--   greater here than there keeps its target.
-- Answers how many were unloaded.
local states, counters = tonumber(ARGV[3]), tonumber(ARGV[4])
if redis.call('EXISTS', KEYS[2]) == 1 or (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end

local function may_go(target, key, at)
  for set = 3, 5 do
    if redis.call('SISMEMBER', KEYS[set], target) == 1 then return false end
  end
  if redis.call('EXISTS', KEYS[key]) == 1 then return false end
  local seen = redis.pcall('HGET', KEYS[key + 1], '.seen')
  seen = type(seen) == 'string' and tonumber(seen)
  if not seen or seen > tonumber(ARGV[2]) then return false end
  for i = 1, counters do
    local held = redis.call('HGET', KEYS[key + 1], ARGV[4 + i])
    if held and not (tonumber(held) and tonumber(held) <= tonumber(ARGV[at + i])) then return false end
  end
  return true
end

local key, unloaded = 6, 0
for at = 5 + counters, #ARGV, 1 + counters do
  if may_go(ARGV[at], key, at) then
    redis.call('UNLINK', unpack(KEYS, key + 1, key + 1 + states))
    unloaded = unloaded + 1
  end
  key = key + 2 + states
end
return unloaded
