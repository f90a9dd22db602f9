-- Numbers of cells, sizes and times of each night, of all cells and of each project.
-- $night: the night, the last one by default
-- $rows = 30: the number of nights up to that night
WITH nights AS (
  SELECT DISTINCT night FROM cells WHERE night <= $night::DATE ORDER BY night DESC LIMIT $rows::INT
), shown AS (
  SELECT cells.* FROM cells JOIN nights USING (night)
), projects AS (
  SELECT DISTINCT project FROM shown
  UNION ALL
  SELECT NULL
)
SELECT projects.project, nights.night, count(cell) AS cells,
       count(*) FILTER (state IN ('passed', 'known')) AS passed,
       count(*) FILTER (state = 'failed') AS failed,
       count(*) FILTER (state IN ('not judged', 'infra', 'lost', 'stale', 'missing')) AS unjudged,
       coalesce(sum(size), 0)::UBIGINT AS size, coalesce(sum(seconds), 0) AS seconds
FROM nights
CROSS JOIN projects
LEFT JOIN shown
  ON shown.night = nights.night AND (projects.project IS NULL OR shown.project = projects.project)
GROUP BY projects.project, nights.night
ORDER BY projects.project NULLS FIRST, nights.night
