-- Cells that pass in a night and failed when they were last judged.
-- $night: the night, the last one by default
-- $days = 1: the number of days up to that night
SELECT now.night, cells.project, now.cell, failing.since, failing.known, cells.version
FROM past AS now
JOIN past AS failing ON failing.cell = now.cell AND failing.night = now.failed_before
JOIN cells ON cells.cell = now.cell AND cells.night = now.night
WHERE now.state IN ('passed', 'known') AND now.night > $night::DATE - $days::INT
  AND now.night <= $night::DATE
ORDER BY now.night DESC, cells.project, now.cell
