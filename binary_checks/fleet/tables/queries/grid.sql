-- Every cell with one letter for each night, the oldest night first; what broke is on top.
-- $night: the night, the last one by default
-- $rows = 30: the number of nights up to that night
-- $cell = *: the cells, as a glob
WITH nights AS (
  SELECT DISTINCT night FROM cells WHERE night <= $night::DATE ORDER BY night DESC LIMIT $rows::INT
), shown AS MATERIALIZED (
  SELECT cell, night, state, project, letter, worst
  FROM cells
  JOIN nights USING (night)
  JOIN letters USING (state)
  WHERE cell GLOB $cell
), drawn AS (
  -- the letters sorted by night; an aggregate with ORDER BY would take 20 kB of memory a cell
  SELECT cell, list_sort(list({night: night, letter: coalesce(letter, ' ')})) AS letters,
         max(night) FILTER (letter IS NOT NULL) AS last_night
  FROM (SELECT DISTINCT cell FROM shown)
  CROSS JOIN nights
  LEFT JOIN shown USING (cell, night)
  GROUP BY cell
), judged AS (
  SELECT project, cell, state, last_night, worst,
         list_aggregate(list_transform(letters, lambda each: each.letter), 'string_agg', '')
           AS nights,
         cell IN (SELECT cell FROM broken WHERE fresh AND night = $night::DATE) AS broke
  FROM drawn
  JOIN (SELECT * RENAME (night AS last_night) FROM shown) AS last USING (cell, last_night)
), ranked AS (
  SELECT *, bool_or(broke) OVER projects AS breaking,
         count(*) FILTER (state = 'failed' AND last_night = $night::DATE) OVER projects AS failing
  FROM judged
  WINDOW projects AS (PARTITION BY project)
)
SELECT project, cell, nights, state, last_night,
       len(regexp_replace(nights, '[·k ]', '', 'g')) AS troubles,
       if(last_night <> $night::DATE, 'departed', if(troubles = 0, 'steady', 'troubled')) AS kind
FROM ranked
ORDER BY breaking DESC, failing DESC, project, broke DESC, worst, cell
