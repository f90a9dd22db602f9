-- Cells whose package needs this version of glibc, or a later one.
-- $version = 2.34: the version, as in GLIBC_2.34
-- $night: the night, the last one by default
WITH floors AS (
  SELECT sha256, path, glibc, TRY_CAST(string_split(glibc, '.') AS INT[]) AS numbers
  FROM objects
  WHERE glibc <> ''
)
SELECT cell, version, arg_max(glibc, numbers) AS glibc, count(*) AS objects,
       arg_max(path, numbers) AS object
FROM cells
JOIN floors USING (sha256)
WHERE night = $night::DATE
  AND numbers >= string_split(regexp_replace($version, '^GLIBC_', ''), '.')::INT[]
GROUP BY cell, version
ORDER BY max(numbers) DESC, cell
