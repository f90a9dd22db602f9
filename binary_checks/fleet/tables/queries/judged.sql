-- The last night of each cell in which a package was judged, and how the cell ended.
-- $packages = : the SHA-256 of packages, separated by spaces
SELECT sha256, cell, night, state,
       if(state = 'failed', 'failing', if(state IN ('passed', 'known'), 'passed', 'untested'))
         AS verdict,
       coalesce(check_id || ': ' || summary, reason) AS reason
FROM (
  SELECT * FROM cells
  WHERE sha256 IN (SELECT unnest(string_split($packages, ' ')))
  QUALIFY night = max(night) OVER (PARTITION BY sha256, cell)
) AS last
LEFT JOIN (
  SELECT night, cell, arg_min(check_id, (outcome <> 'failed', check_id)) AS check_id,
         arg_min(summary, (outcome <> 'failed', check_id)) AS summary
  FROM failures
  WHERE shown
  GROUP BY night, cell
) AS found USING (night, cell)
ORDER BY sha256, array_position(['failing', 'passed', 'untested'], verdict), cell
