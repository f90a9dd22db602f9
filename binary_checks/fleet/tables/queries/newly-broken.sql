-- What fails in a night and did not fail when its cells were last judged: one line for each fault.
-- $night: the night, the last one by default
-- $days = 1: the number of days up to that night
SELECT * EXCLUDE (fresh)
FROM faults
WHERE fresh AND night > $night::DATE - $days::INT AND night <= $night::DATE
ORDER BY night DESC, number DESC, projects, check_id
