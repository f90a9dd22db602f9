-- How each cell ended in a night, and when it passed before; the latest trouble comes first.
-- $night: the night, the last one by default
SELECT cells.* EXCLUDE (gpu, problems, warnings, accepted, not_inspected, serial, installing,
                       cpu_seconds, started),
       past.since, past.known, past.last_good, good.version AS good_version,
       good.sha256 AS good_sha256, good.facts AS good_facts
FROM cells
JOIN past USING (cell, night)
LEFT JOIN cells AS good ON good.cell = cells.cell AND good.night = past.last_good
WHERE cells.night = $night::DATE
ORDER BY cells.state IN ('passed', 'known'), past.since DESC, cells.cell
