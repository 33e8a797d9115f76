-- Record state changes: one or many, all of one partition, applied in order.
-- KEYS: dirty, chg, then for each operation a state hash, a count hash and, with 'accept', the loader's lock.
-- ARGV: deadline and the greatest event time the caller may have seen (both Unix ms), 'refuse' | 'accept', then for each
--   operation: interaction, target id, user id, '1' | '0'.
-- Answers {Redis time, event time, then for each operation an array}:
--   {'expired'}                nothing was done: the deadline, in Redis time, had passed
--   {'not_loaded'}             nothing was done: the state or the count is not known here; with 'refuse' only
--   {'changed' | 'same', count or ''}   recorded and marked; the count is '' where it is not known
--   {'error', message}         this operation alone failed
-- With 'accept' a write to what is not loaded is recorded on whatever is there. The count is not known then, nor does the
-- hash vouch for anything, until it is merged with its rows; a load under way starts over, for it counts on no writers.
-- Redis does not roll a script back, so a mark comes before what it marks. A write that changes nothing is marked
-- too: its answer was given on a state that a replay or a restore may be about to turn around.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local event = math.max(now, tonumber(ARGV[2]))
local late = now > tonumber(ARGV[1])

local accept = ARGV[3] == 'accept'

-- A recount is under way: it needs the state that this user had when it began. The key was made by its beginning.
local function save(counts, interaction, saved, user, old)
  if redis.call('EXISTS', saved) == 1 then
    redis.call('HSETNX', saved, user, old)
  else
    redis.call('HDEL', counts, '.old:' .. interaction)
  end
end

local function write(states, counts, lock, interaction, target, user, state)
  local old = redis.pcall('HGET', states, user)
  if type(old) == 'table' then return { 'error', old.err } end
  local held = redis.pcall('HMGET', counts, interaction, '.old:' .. interaction)
  if held.err then return { 'error', held.err } end
  local count, saved = held[1], held[2]
  if count and not string.match(count, '^%-?%d+$') then return { 'error', 'the count is not a number' } end
  local loaded = true
  if not old or not count then
    local kept = redis.call('HGET', states, '0')
    loaded = (old or kept == 'full') and (count or kept == 'partial')
    if not loaded and not accept then return { 'not_loaded' } end
  end
  local mark = redis.pcall('SADD', KEYS[1], target)
  if type(mark) == 'table' then return { 'error', mark.err } end
  mark = redis.pcall('HSET', KEYS[2], interaction .. ':' .. target .. ':' .. user, string.format('%.0f', event))
  if type(mark) == 'table' then return { 'error', mark.err } end
  if not loaded then
    redis.call('DEL', lock)
    redis.call('HDEL', counts, interaction, '.old:' .. interaction)
    redis.call('HDEL', states, '0')
    redis.call('PERSIST', counts)
    count, saved = false, false
  end
  if saved and old ~= state then save(counts, interaction, saved, user, old or '0') end
  if old ~= state then redis.call('HSET', states, user, state) end
  local changed = (old or '0') ~= state
  if changed and count then
    count = redis.pcall('HINCRBY', counts, interaction, state == '1' and 1 or -1)
    if type(count) == 'table' then return { 'error', count.err } end
  end
  redis.pcall('HSET', counts, '.seen', string.format('%.0f', now))
  return { changed and 'changed' or 'same', count and tostring(count) or '' }
end

local answer = { string.format('%.0f', now), string.format('%.0f', event) }
for i = 4, #ARGV, 4 do
  local key = 3 + (i - 4) / 4 * (accept and 3 or 2)
  answer[#answer + 1] = late and { 'expired' }
    or write(KEYS[key], KEYS[key + 1], KEYS[key + 2], ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
end
return answer
