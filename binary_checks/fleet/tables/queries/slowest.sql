-- What took the longest in a night, against the median of the nights before.
-- $night: the night, the last one by default
-- $days = 14: how many days before it the median is of
-- $rows = 20: how many cells
WITH usual AS (
  SELECT cell, median(seconds) AS median
  FROM cells
  WHERE night < $night::DATE AND night >= $night::DATE - $days::INT AND attempts > 0
  GROUP BY cell
), slowest_check AS (
  SELECT cell, arg_max("check", seconds) AS "check", max(seconds) AS check_seconds
  FROM checks
  WHERE night = $night::DATE
  GROUP BY cell
)
SELECT cell, state, attempts, seconds, round(median, 3) AS median, installing,
       "check", check_seconds, cpu_seconds, peak_memory
FROM cells
LEFT JOIN usual USING (cell)
LEFT JOIN slowest_check USING (cell)
WHERE night = $night::DATE AND attempts > 0
ORDER BY seconds DESC, cell
LIMIT $rows::INT
