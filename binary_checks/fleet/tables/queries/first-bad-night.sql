-- The first night in which each failing cell failed, with the builds before and after.
-- $night: the night, the last one by default
-- $cell = *: the cells, as a glob
WITH decided AS (
  SELECT * FROM cells
  WHERE night <= $night::DATE AND cell GLOB $cell AND state IN ('passed', 'known', 'failed')
), good AS (
  SELECT cell, max(night) AS last_good, arg_max(version, night) AS good_version,
         arg_max(sha256, night) AS good_sha256
  FROM decided
  WHERE state <> 'failed'
  GROUP BY cell
), bad AS (
  SELECT cell, min(night) AS first_bad, arg_min(version, night) AS bad_version,
         arg_min(sha256, night) AS bad_sha256, arg_min(cause, night) AS cause,
         count(*) AS nights
  FROM decided
  LEFT JOIN good USING (cell)
  WHERE state = 'failed' AND (last_good IS NULL OR night > last_good)
  GROUP BY cell
)
SELECT cell, first_bad, bad_version, cause, nights, last_good, good_version, bad_sha256, good_sha256
FROM bad
LEFT JOIN good USING (cell)
ORDER BY first_bad DESC, cell
