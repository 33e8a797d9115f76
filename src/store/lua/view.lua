-- Count a viewer, at most once in a window.
-- KEYS: dirty, chg, cnt, the viewer's lock.
-- ARGV: deadline and the greatest event time the caller may have seen (both Unix ms), counter, target, window (ms).
-- Answers {Redis time, event time, 'expired' | 'not_loaded' | 'counted' | 'same', count or ''}.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local event = string.format('%.0f', math.max(now, tonumber(ARGV[2])))
local clock = string.format('%.0f', now)
if now > tonumber(ARGV[1]) then return { clock, event, 'expired', '' } end
local count = redis.call('HGET', KEYS[3], ARGV[3])
if not count then return { clock, event, 'not_loaded', '' } end
if not redis.call('SET', KEYS[4], '1', 'NX', 'PX', ARGV[5]) then return { clock, event, 'same', count } end
redis.call('SADD', KEYS[1], ARGV[4])
redis.call('HSET', KEYS[2], ARGV[3] .. ':' .. ARGV[4] .. ':0', event)
count = redis.call('HINCRBY', KEYS[3], ARGV[3], 1)
redis.call('HSET', KEYS[3], '.seen', clock)
redis.call('PERSIST', KEYS[3])
return { clock, event, 'counted', tostring(count) }
