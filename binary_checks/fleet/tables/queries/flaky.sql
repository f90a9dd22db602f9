-- Cells that failed and then passed on the same bytes, the most often first.
-- $night: the night, the last one by default
-- $days = 30: how many days up to it count
SELECT cell, count(*) FILTER (state = 'flaky') AS flaky, count(*) AS nights,
       max(night) FILTER (state = 'flaky') AS last_flaky,
       arg_max(cause, night) FILTER (state = 'flaky') AS cause,
       arg_max(coalesce(nullif(evidence, ''), reason), night) FILTER (state = 'flaky') AS evidence
FROM cells
WHERE night > $night::DATE - $days::INT AND night <= $night::DATE
GROUP BY cell
HAVING flaky > 0
ORDER BY flaky DESC, last_flaky DESC, cell
