-- The number of cells in each state, of all cells and of each project.
-- $night: the night, the last one by default
SELECT project, state, count(*) AS cells
FROM cells
JOIN letters USING (state)
WHERE night = $night::DATE
GROUP BY GROUPING SETS ((project, state, letters.rank), (state, letters.rank))
ORDER BY project NULLS FIRST, letters.rank
