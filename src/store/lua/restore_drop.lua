-- Drops those of `users` from a state hash that have no change in `chg`; answers how many.
local function drop_unmarked(chg, states, prefix, users)
  local dropped = 0
  for first = 1, #users, 1000 do
    local fields = {}
    for i = first, math.min(first + 999, #users) do fields[#fields + 1] = prefix .. users[i] end
    local gone = {}
    for i, mark in ipairs(redis.call('HMGET', chg, unpack(fields))) do
      if time_of(mark) == 0 then gone[#gone + 1] = users[first + i - 1] end
    end
    if #gone > 0 then dropped = dropped + redis.call('HDEL', states, unpack(gone)) end
  end
  return dropped
end
