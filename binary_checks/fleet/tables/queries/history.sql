-- The nights of each cell, the latest first; cells with the latest trouble come first.
-- $night: the night, the last one by default
-- $rows = 30: the number of nights up to that night
-- $cell = *: the cells, as a glob
WITH nights AS (
  SELECT DISTINCT night FROM cells WHERE night <= $night::DATE ORDER BY night DESC LIMIT $rows::INT
), shown AS (
  SELECT cell, night, state, version, size, seconds, accepted, reason, cause,
         nullif(sha256, '') AS package
  FROM cells
  JOIN nights USING (night)
  WHERE cell GLOB $cell
), found AS (
  SELECT cell, night, arg_min(check_id, (outcome <> 'failed', check_id)) AS check_id,
         arg_min(summary, (outcome <> 'failed', check_id)) AS summary, count(*) - 1 AS other_checks
  FROM failures
  WHERE shown
  GROUP BY cell, night
), measured AS (
  SELECT sha256 AS package, {
           'native code': max(size) FILTER (part = 'native code'),
           'device code': max(size) FILTER (part = 'device code'),
           'bundled libraries': max(size) FILTER (part = 'bundled libraries'),
           'debug information': max(size) FILTER (part = 'debug information'),
           'Python': max(size) FILTER (part = 'Python'),
           'headers': max(size) FILTER (part = 'headers'),
           'metadata': max(size) FILTER (part = 'metadata'),
           'data': max(size) FILTER (part = 'data')
         } AS parts
  FROM all_parts
  WHERE sha256 IN (SELECT DISTINCT package FROM shown)
  GROUP BY sha256
)
SELECT cell, night, shown.state, version,
       coalesce(package <> lag(package IGNORE NULLS) OVER (PARTITION BY cell ORDER BY night), false)
         AS new_file,
       size, seconds, accepted, reason, cause, check_id, summary, other_checks, parts
FROM shown
LEFT JOIN found USING (cell, night)
LEFT JOIN measured USING (package)
LEFT JOIN (
  SELECT cell, state IN ('passed', 'known') AS well, since FROM past WHERE night = $night::DATE
) AS tonight USING (cell)
ORDER BY well, since DESC, cell, night DESC
