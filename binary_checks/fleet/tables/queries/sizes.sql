-- The size of each build by part, over time; file is the size of the package's file.
-- $cell = *: the cells, as a glob
WITH builds AS (
  SELECT cell, sha256, min(night) AS night, any_value(version) AS version, any_value(size) AS file
  FROM cells
  WHERE sha256 <> '' AND cell GLOB $cell
  GROUP BY cell, sha256
)
SELECT cell, builds.night, version, file, sum(size)::UBIGINT AS installed,
       coalesce(sum(size) FILTER (part = 'native code'), 0)::UBIGINT AS native_code,
       coalesce(sum(size) FILTER (part = 'device code'), 0)::UBIGINT AS device_code,
       coalesce(sum(size) FILTER (part = 'bundled libraries'), 0)::UBIGINT AS bundled_libraries,
       coalesce(sum(size) FILTER (part = 'debug information'), 0)::UBIGINT AS debug_information,
       coalesce(sum(size) FILTER (part = 'Python'), 0)::UBIGINT AS python,
       coalesce(sum(size) FILTER (part = 'headers'), 0)::UBIGINT AS headers,
       coalesce(sum(size) FILTER (part = 'metadata'), 0)::UBIGINT AS metadata,
       coalesce(sum(size) FILTER (part = 'data'), 0)::UBIGINT AS data
FROM builds
JOIN parts USING (sha256)
GROUP BY cell, builds.night, version, file
ORDER BY cell, builds.night
