-- Cells that pass in a night and failed when they were last judged.
-- $night: the night, the last one by default
-- $days = 1: the number of days up to that night
FROM mended
WHERE night > $night::DATE - $days::INT AND night <= $night::DATE
ORDER BY night DESC, project, cell
