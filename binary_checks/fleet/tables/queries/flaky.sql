-- Cells that failed and then passed on the same bytes, the most frequent first.
-- $night: the night, the last one by default
-- $days = 30: the number of days up to that night
SELECT cell, count(*) FILTER (state = 'flaky') AS flaky, count(*) AS nights,
       max(night) FILTER (state = 'flaky') AS last_flaky,
       arg_max(cause, night) FILTER (state = 'flaky') AS cause,
       arg_max(coalesce(nullif(evidence, ''), reason), night) FILTER (state = 'flaky') AS evidence
FROM cells
WHERE night > $night::DATE - $days::INT AND night <= $night::DATE
GROUP BY cell
HAVING flaky > 0
ORDER BY flaky DESC, last_flaky DESC, cell
