-- The slowest cells of a night, compared with the median of the nights before.
-- $night: the night, the last one by default
-- $days = 14: the number of days before that night for the median
-- $rows = 20: the number of cells
WITH usual AS (
  SELECT cell, median(seconds) AS median
  FROM cells
  WHERE night < $night::DATE AND night >= $night::DATE - $days::INT AND attempts > 0
  GROUP BY cell
), slowest_check AS (
  SELECT cell, arg_max(check_id, seconds) AS check_id, max(seconds) AS check_seconds
  FROM checks
  WHERE night = $night::DATE
  GROUP BY cell
)
SELECT cell, state, attempts, seconds, round(median, 3) AS median, installing,
       check_id, check_seconds, cpu_seconds, peak_memory
FROM cells
LEFT JOIN usual USING (cell)
LEFT JOIN slowest_check USING (cell)
WHERE night = $night::DATE AND attempts > 0
ORDER BY seconds DESC, cell
LIMIT $rows::INT
