-- The first night in which a package, or an object that still exists, lacks an architecture.
-- $architecture = sm_70: a target of device code (sm_70, gfx90a), or a host architecture (x86_64)
-- $cell = *: the cells, as a glob
WITH builds AS (
  SELECT cell, sha256, any_value(version) AS version, min(night) AS night, max(night) AS last_night
  FROM cells
  WHERE sha256 IN (SELECT sha256 FROM objects) AND cell GLOB $cell
  GROUP BY cell, sha256
), package_objects AS (
  SELECT sha256, path,
         bool_or(architecture = $architecture OR list_contains(gpu, $architecture)) AS has
  FROM objects
  GROUP BY sha256, path
), subjects AS (
  SELECT cell, sha256, version, night, last_night, path, has
  FROM builds JOIN package_objects USING (sha256)
  UNION ALL
  SELECT cell, sha256, version, night, last_night, '' AS path, bool_or(has) AS has
  FROM builds JOIN package_objects USING (sha256)
  GROUP BY ALL
), had AS (
  SELECT cell, path, max(last_night) AS last_with, arg_max(version, last_night) AS version_with
  FROM subjects
  WHERE has
  GROUP BY cell, path
), lost AS (
  SELECT cell, path, min(subjects.night) AS first_without,
         arg_min(subjects.version, subjects.night) AS version_without,
         any_value(last_with) AS last_with, any_value(version_with) AS version_with
  FROM subjects JOIN had USING (cell, path)
  WHERE NOT has AND subjects.night > last_with
  GROUP BY cell, path
)
SELECT first_without, cell, version_without, last_with, version_with,
       bool_or(path = '') AS whole_package, count(*) FILTER (path <> '') AS objects,
       min(path) FILTER (path <> '') AS first_object
FROM lost
GROUP BY first_without, cell, version_without, last_with, version_with
ORDER BY first_without DESC, cell
