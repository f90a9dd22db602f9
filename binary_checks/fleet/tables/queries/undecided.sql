-- Cells that neither passed nor failed in a night, by state, the newest first.
-- $night: the night, the last one by default
SELECT state, cell, project, since, known, last_good, version, reason
FROM cells
JOIN past USING (cell, night, state)
WHERE night = $night::DATE AND state NOT IN ('passed', 'known', 'failed')
ORDER BY state, since DESC, cell
