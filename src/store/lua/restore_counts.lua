-- Drop counts, those of counters with a change excepted: these take the larger value.
-- KEYS: as restore_guard, then chg, then a count hash for each target.
-- ARGV: as restore_guard, then how many interactions have states, their names…, how many are counters, their names…, then for
--   each target its id and the count row of each counter ('' for none).
local states = tonumber(ARGV[3])
local counters = tonumber(ARGV[4 + states])
local first = 5 + states + counters
for i = first, #ARGV, 1 + counters do
  local counts = KEYS[4 + (i - first) / (1 + counters)]
  if type(redis.pcall('HLEN', counts)) == 'number' then
    redis.call('HDEL', counts, '.seen', unpack(ARGV, 4, 3 + states))
    for n = 1, counters do
      local name, row = ARGV[4 + states + n], ARGV[i + n]
      local held = redis.call('HGET', counts, name)
      if time_of(redis.call('HGET', KEYS[3], name .. ':' .. ARGV[i] .. ':0')) == 0 then
        redis.call('HDEL', counts, name)
      elseif held and row ~= '' and (tonumber(held) or math.huge) < tonumber(row) then
        redis.call('HSET', counts, name, row)
      end
    end
  end
end
return redis.status_reply('OK')
