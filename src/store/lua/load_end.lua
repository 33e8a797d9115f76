-- End a load: counts, what the hashes say of themselves, and the lock is given back.
-- KEYS: as load_guard, then cnt, dirty, dirty:inflight, done, then the state hash of each interaction with states.
-- ARGV: as load_guard, then target, how long an empty target is remembered (ms) or '0' to have its hashes speak, the
--   largest hash to count here, ckpt when the loader began to count or '', how many interactions have states, then for
--   each of them its name, how it was loaded, a figure, and the active states that the loader counted or '-1':
--     'whole'   all rows were merged, the figure says how many
--     'kept'    the hash was full already
--     'left'    not at all
--     'users'   single users were merged, the figure is the count row, or '' when it must not be taken
--   then for each counter its name and the count row.
-- Answers
--   {'ok', why, interactions…}  those whose counts stay unknown, if any, and why: 'pending' (the target has changes that
--                               MySQL does not have), 'journal' (the row must not be taken), 'moved' (a run came between)
--   {'count', ckpt}             a hash is too large to be counted here, and the loader has not counted it: its count is
--                               dropped, and the hash says nothing, so that no writer changes it while the loader counts
--   {'again'}                   a hash holds fewer users than were merged into it, or is not full any more: it was
--                               evicted or deleted, and must not be called full; or the counting was disturbed
local limit, states = tonumber(ARGV[7]), tonumber(ARGV[9])
local here, counted = {}, false
local clean = true
for i = 5, 7 do clean = clean and redis.call('SISMEMBER', KEYS[i], ARGV[5]) == 0 end
local still = clean and ARGV[4] == '1' and ckpt == ARGV[3]
local empty, uncounted = true, false
for i = 1, states do
  local at = 6 + 4 * i
  local name, how, figure = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local size, kept = redis.call('HLEN', KEYS[7 + i]), redis.call('HGET', KEYS[7 + i], '0')
  if size > 0 then empty = false end
  if how == 'users' and not (still and figure == '0') then empty = false end
  if (how == 'whole' and size - (kept and 1 or 0) < tonumber(figure)) or (how == 'kept' and kept ~= 'full') then
    redis.call('DEL', KEYS[3])
    return { 'again' }
  end
  here[i] = how == 'whole' or (how == 'kept' and redis.call('HEXISTS', KEYS[4], name) == 0)
  if here[i] and size > limit then
    if ARGV[at + 3] == '-1' then
      redis.call('HDEL', KEYS[4], name, '.old:' .. name)
      if kept ~= 'full' then redis.call('HDEL', KEYS[7 + i], '0') end
      uncounted = true
    else
      counted = true
    end
  end
end
if uncounted then return { 'count', ckpt } end
if counted and ckpt ~= ARGV[8] then
  redis.call('DEL', KEYS[3])
  return { 'again' }
end
for at = 10 + 4 * states, #ARGV, 2 do
  if tonumber(ARGV[at + 1]) > 0 then empty = false end
end
local remember = empty and tonumber(ARGV[6]) > 0
local answer = { 'ok', '' }
for i = 1, states do
  local at = 6 + 4 * i
  local name, how, figure = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if here[i] then
    local active = tonumber(ARGV[at + 3])
    if redis.call('HLEN', KEYS[7 + i]) <= limit then
      active = 0
      for _, state in ipairs(redis.call('HVALS', KEYS[7 + i])) do
        if state == '1' then active = active + 1 end
      end
    end
    redis.call('HSET', KEYS[4], name, active)
    redis.call('HDEL', KEYS[4], '.old:' .. name)
  elseif how == 'users' then
    -- A count that no hash vouches for may be of another time.
    if redis.call('HGET', KEYS[7 + i], '0') ~= 'partial' then redis.call('HDEL', KEYS[4], name) end
    if redis.call('HEXISTS', KEYS[4], name) == 0 then
      if still and figure ~= '' then
        redis.call('HSET', KEYS[4], name, figure)
      else
        answer[2] = not clean and 'pending' or figure == '' and 'journal' or 'moved'
        answer[#answer + 1] = name
      end
    end
  end
  if not remember and how ~= 'left' then redis.call('HSET', KEYS[7 + i], '0', how == 'users' and 'partial' or 'full') end
end
for at = 10 + 4 * states, #ARGV, 2 do
  local held = redis.call('HGET', KEYS[4], ARGV[at])
  if not held or tonumber(held) < tonumber(ARGV[at + 1]) then redis.call('HSET', KEYS[4], ARGV[at], ARGV[at + 1]) end
end
local time = redis.call('TIME')
redis.call('HSET', KEYS[4], '.seen', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
if remember then redis.call('PEXPIRE', KEYS[4], ARGV[6]) else redis.call('PERSIST', KEYS[4]) end
redis.call('DEL', KEYS[3])
return answer
