-- All cells with the values of their axes, and the last night of each.
-- $night: the night, the last one by default
SELECT DISTINCT ON (cell) cell, project, kind, libtorch, system, architecture, python, variant,
       cxx_abi, source, state, night
FROM cells
WHERE night <= $night::DATE
ORDER BY cell, night DESC
