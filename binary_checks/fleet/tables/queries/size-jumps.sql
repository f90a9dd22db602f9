-- Builds whose file is much larger or smaller than the previous one, with the part that changed most.
-- $percent = 10: the least difference in percent
-- $bytes = 65536: the least difference in bytes
-- $cell = *: the cells, as a glob
WITH builds AS (
  SELECT cell, sha256, min(night) AS night, any_value(version) AS version, any_value(size) AS size
  FROM cells
  WHERE sha256 <> '' AND size > 0 AND cell GLOB $cell
  GROUP BY cell, sha256
), steps AS (
  SELECT *, lag(size) OVER nights AS size_before, lag(version) OVER nights AS version_before,
         lag(sha256) OVER nights AS sha256_before
  FROM builds
  WINDOW nights AS (PARTITION BY cell ORDER BY night, version)
), jumps AS (
  SELECT *, size::BIGINT - size_before::BIGINT AS change
  FROM steps
  WHERE abs(change) >= $bytes::BIGINT AND abs(change) * 100 >= $percent::DOUBLE * size_before
), part_steps AS (
  SELECT cell, sha256, part, sum(part_size) AS part_change
  FROM (
    SELECT cell, jumps.sha256, part, parts.size::BIGINT AS part_size
    FROM jumps JOIN parts ON parts.sha256 = jumps.sha256
    UNION ALL
    SELECT cell, jumps.sha256, part, -parts.size::BIGINT
    FROM jumps JOIN parts ON parts.sha256 = jumps.sha256_before
    WHERE jumps.sha256 IN (SELECT sha256 FROM parts)
  )
  GROUP BY ALL
), most AS (
  SELECT cell, sha256, arg_max(part, abs(part_change)) AS part,
         arg_max(part_change, abs(part_change)) AS part_change
  FROM part_steps
  GROUP BY ALL
)
SELECT night, cell, version_before, version, size_before, size,
       round(100.0 * change / size_before, 1) AS percent, part, part_change
FROM jumps
LEFT JOIN most USING (cell, sha256)
ORDER BY night DESC, abs(change) DESC, cell
