-- What fails in a night and did not fail when it was last decided.
-- $night: the night, the last one by default
WITH before AS (
  SELECT cell, max(night) AS last_good, arg_max(state, night) AS state,
         arg_max(version, night) AS good_version
  FROM cells
  WHERE night < $night::DATE AND state IN ('passed', 'known', 'failed')
  GROUP BY cell
), first_problem AS (
  SELECT cell, min("check") AS "check", arg_min(path, "check") AS path,
         arg_min(coalesce(nullif(sentence, ''), reason), "check") AS sentence
  FROM checks
  WHERE night = $night::DATE AND outcome IN ('failed', 'broken', 'error')
  GROUP BY cell
)
SELECT cells.cell, cells.version, before.last_good, before.good_version,
       coalesce(first_problem."check", cells.cause) AS "check", first_problem.path,
       coalesce(first_problem.sentence, cells.reason) AS sentence
FROM cells
LEFT JOIN before USING (cell)
LEFT JOIN first_problem USING (cell)
WHERE cells.night = $night::DATE AND cells.state = 'failed'
  AND (before.state IS NULL OR before.state <> 'failed')
ORDER BY cells.cell
