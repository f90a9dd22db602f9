-- What fails in a night and failed before: one line for each fault, the oldest first.
-- $night: the night, the last one by default
SELECT * EXCLUDE (fresh)
FROM faults
WHERE NOT fresh AND night = $night::DATE
ORDER BY since, projects, check_id
