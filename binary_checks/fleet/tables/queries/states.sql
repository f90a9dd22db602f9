-- The number of cells in each state, for each project.
-- $night: the night, the last one by default
SELECT project, state, count(*) AS cells
FROM cells
JOIN letters USING (state)
WHERE night = $night::DATE
GROUP BY project, state, letters.rank
ORDER BY project, letters.rank
