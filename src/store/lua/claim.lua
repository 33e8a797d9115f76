-- Take the dirty work out of the writers' way; what a crashed run left in flight comes first.
-- KEYS: ckpt, dirty, chg, dirty:inflight, chg:inflight, done.  ARGV: the value last set.
-- Answers {'resumed' | 'claimed' | 'empty', targets in flight, changes in flight}.
-- The lengths are read first: a key of a wrong type fails the script before it has changed anything.
local dirty, changes = redis.call('SCARD', KEYS[2]), redis.call('HLEN', KEYS[3])
local targets, inflight = redis.call('SCARD', KEYS[4]), redis.call('HLEN', KEYS[5])
if targets > 0 or inflight > 0 then
  return { 'resumed', targets, inflight }
end
redis.call('UNLINK', KEYS[6])
if dirty > 0 then redis.call('RENAME', KEYS[2], KEYS[4]) end
if changes > 0 then redis.call('RENAME', KEYS[3], KEYS[5]) end
if dirty == 0 and changes == 0 then
  return { 'empty', 0, 0 }
end
return { 'claimed', dirty, changes }
