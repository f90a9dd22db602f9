-- Every cell with one letter for each night, the oldest night first.
-- $night: the night, the last one by default
-- $rows = 30: the number of nights up to that night
-- $cell = *: the cells, as a glob
WITH nights AS (
  SELECT DISTINCT night FROM cells WHERE night <= $night::DATE ORDER BY night DESC LIMIT $rows::INT
), listed AS (
  SELECT DISTINCT cell FROM cells JOIN nights USING (night) WHERE cell GLOB $cell
)
SELECT cell, nights, state
FROM (
  SELECT listed.cell, string_agg(coalesce(letter, ' '), '' ORDER BY nights.night) AS nights,
         arg_max(cells.state, nights.night) AS state
  FROM listed
  CROSS JOIN nights
  LEFT JOIN cells ON cells.cell = listed.cell AND cells.night = nights.night
  LEFT JOIN letters ON letters.state = cells.state
  GROUP BY listed.cell
)
ORDER BY state IN ('passed', 'known'), cell
