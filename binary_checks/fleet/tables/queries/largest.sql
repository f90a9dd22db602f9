-- The largest files of a night.
-- $night: the night, the last one by default
-- $rows = 20: the number of cells
SELECT cell, project, version, file_name, size
FROM cells
WHERE night = $night::DATE AND size > 0
ORDER BY size DESC, cell
LIMIT $rows::INT
