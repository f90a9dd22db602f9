-- Every cell with one letter for each night, the oldest night first; what broke is on top.
-- $night: the night, the last one by default
-- $rows = 30: the number of nights up to that night
-- $cell = *: the cells, as a glob
WITH nights AS (
  SELECT DISTINCT night FROM cells WHERE night <= $night::DATE ORDER BY night DESC LIMIT $rows::INT
), listed AS (
  SELECT DISTINCT cell FROM cells JOIN nights USING (night) WHERE cell GLOB $cell
), drawn AS (
  SELECT listed.cell, string_agg(coalesce(letter, ' '), '' ORDER BY nights.night) AS nights,
         max(cells.night) AS last_night
  FROM listed
  CROSS JOIN nights
  LEFT JOIN cells ON cells.cell = listed.cell AND cells.night = nights.night
  LEFT JOIN letters ON letters.state = cells.state
  GROUP BY listed.cell
), judged AS (
  SELECT drawn.*, cells.project, cells.state, letters.worst,
         drawn.cell IN (SELECT cell FROM broken WHERE fresh AND night = $night::DATE) AS broke
  FROM drawn
  JOIN cells ON cells.cell = drawn.cell AND cells.night = drawn.last_night
  JOIN letters ON letters.state = cells.state
), ranked AS (
  SELECT *, bool_or(broke) OVER projects AS breaking,
         count(*) FILTER (state = 'failed' AND last_night = $night::DATE) OVER projects AS failing
  FROM judged
  WINDOW projects AS (PARTITION BY project)
)
SELECT project, cell, nights, state, last_night
FROM ranked
ORDER BY breaking DESC, failing DESC, project, broke DESC, worst, cell
