-- Drop the states of one page of a large hash that have no change.
-- KEYS: as restore_guard, then chg, state hash.  ARGV: as restore_guard, then '<interaction>:<target>:', users….
-- Answers how many were dropped.
local users = {}
for i = 4, #ARGV do users[#users + 1] = ARGV[i] end
return drop_unmarked(KEYS[3], KEYS[4], ARGV[3], users)
