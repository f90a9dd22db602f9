-- Cells of the night before that a night does not plan.
-- $night: the night, the last one by default
SELECT cell, project, state, version
FROM cells
WHERE night = (SELECT max(night) FROM cells WHERE night < $night::DATE)
  AND cell NOT IN (SELECT cell FROM cells WHERE night = $night::DATE)
ORDER BY cell
