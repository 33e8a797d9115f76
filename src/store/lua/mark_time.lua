-- The event time of a mark; 0 when there is none, or it is none that the protocol knows.
local function time_of(mark)
  local time = mark and string.match(mark, '^%d+$') and tonumber(mark)
  return time and time <= 253402300799999 and time or 0
end
