-- Versions that are new in a night, compared with the night before.
-- $night: the night, the last one by default
SELECT now.project, before.version AS version_before, now.version, count(*) AS cells
FROM cells AS now
JOIN cells AS before USING (cell)
WHERE now.night = $night::DATE AND before.version <> now.version
  AND before.night = (SELECT max(night) FROM cells WHERE night < $night::DATE)
  AND before.version <> '' AND now.version <> ''
GROUP BY ALL
ORDER BY ALL
