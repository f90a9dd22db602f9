-- Cells whose package is missing or too old, with the first such night.
-- $night: the night, the last one by default
WITH other AS (
  SELECT cell, max(night) AS last_night, arg_max(version, night) AS last_version
  FROM cells
  WHERE night <= $night::DATE AND state NOT IN ('missing', 'stale')
  GROUP BY cell
), absent AS (
  SELECT cell, min(night) AS since, count(*) AS nights
  FROM cells
  LEFT JOIN other USING (cell)
  WHERE night <= $night::DATE AND state IN ('missing', 'stale')
    AND (last_night IS NULL OR night > last_night)
  GROUP BY cell
)
SELECT cells.cell, cells.state, absent.since, absent.nights, other.last_version, cells.version,
       cells.uploaded, cells.reason
FROM cells
JOIN absent USING (cell)
LEFT JOIN other USING (cell)
WHERE cells.night = $night::DATE AND cells.state IN ('missing', 'stale')
ORDER BY absent.since, cells.cell
