-- Checks that fail in a night and did not fail when their cell was last judged.
-- $night: the night, the last one by default
WITH decided AS (
  SELECT cell, night, state, version
  FROM cells
  WHERE night < $night::DATE AND state IN ('passed', 'known', 'failed')
), before AS (
  SELECT cell, max(night) AS night, arg_max(state, night) AS state,
         max(night) FILTER (state <> 'failed') AS last_good,
         arg_max(version, night) FILTER (state <> 'failed') AS good_version
  FROM decided
  GROUP BY cell
), failing AS (
  SELECT cell, "check", any_value(path) AS path,
         any_value(coalesce(nullif(sentence, ''), reason)) AS sentence
  FROM checks
  WHERE night = $night::DATE AND outcome IN ('failed', 'broken', 'error')
  GROUP BY cell, "check"
), failed_before AS (
  SELECT DISTINCT before.cell, checks."check"
  FROM before
  JOIN checks ON checks.cell = before.cell AND checks.night = before.night
  WHERE checks.outcome IN ('failed', 'broken', 'error')
)
SELECT cells.cell, cells.version, before.last_good, before.good_version,
       coalesce(failing."check", cells.cause) AS "check", failing.path,
       coalesce(failing.sentence, cells.reason) AS sentence
FROM cells
LEFT JOIN before USING (cell)
LEFT JOIN failing USING (cell)
LEFT JOIN failed_before
  ON failed_before.cell = cells.cell AND failed_before."check" = failing."check"
WHERE cells.night = $night::DATE AND cells.state = 'failed' AND failed_before."check" IS NULL
  AND (failing."check" IS NOT NULL OR before.state IS DISTINCT FROM 'failed')
ORDER BY cells.cell, failing."check"
