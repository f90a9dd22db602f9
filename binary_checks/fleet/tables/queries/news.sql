-- What broke and what was mended, the latest first, without the first night that is read.
-- $night: the night, the last one by default
-- $days = 30: the number of days up to that night
WITH news AS (
  SELECT night, true AS broke, projects, check_id, summary, cells
  FROM faults
  WHERE fresh AND night > $night::DATE - $days::INT AND night <= $night::DATE
  UNION ALL
  SELECT night, false, [project], '', '', list_sort(list(cell))
  FROM mended
  WHERE night > $night::DATE - $days::INT AND night <= $night::DATE
  GROUP BY night, project
)
FROM news
WHERE night > (SELECT min(night) FROM cells)
ORDER BY night DESC, broke DESC, if(broke, len(cells), 0) DESC, projects, check_id
