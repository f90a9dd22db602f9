-- Tables and views for questions: those of one project, if the variable `project` names it.

CREATE VIEW cells AS
FROM all_cells WHERE getvariable('project') IN ('', project);

CREATE VIEW checks AS
FROM all_checks
WHERE getvariable('project') = '' OR cell IN (SELECT cell FROM cells);

-- objects and parts: those of each package only once, from the first night with the package.
CREATE VIEW objects AS
FROM all_objects
WHERE getvariable('project') = '' OR sha256 IN (SELECT sha256 FROM cells)
QUALIFY night = min(night) OVER (PARTITION BY sha256);

CREATE VIEW parts AS
FROM all_parts
WHERE getvariable('project') = '' OR sha256 IN (SELECT sha256 FROM cells)
QUALIFY night = min(night) OVER (PARTITION BY sha256);

-- past: each cell and night, seen from the nights before.
CREATE VIEW past AS
WITH steps AS (
  SELECT cell, night, state,
         max(night) FILTER (state IN ('passed', 'known')) OVER earlier AS good,
         max(night) FILTER (state = 'failed') OVER earlier AS failed,
         lag(state) OVER nights IS DISTINCT FROM state AS begins,
         min(night) OVER (PARTITION BY cell) AS first_night
  FROM cells
  WINDOW nights AS (PARTITION BY cell ORDER BY night),
         earlier AS (nights ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), began AS (
  SELECT *,
         -- a failure begins after the last pass: nights without a verdict do not end it
         if(state = 'failed', min(night) FILTER (state = 'failed') OVER (PARTITION BY cell, good),
            max(night) FILTER (begins) OVER (PARTITION BY cell ORDER BY night)) AS since
  FROM steps
)
SELECT cell, night, state, since,
       -- whether an earlier night proves that the state began then
       if(state = 'failed', good IS NOT NULL, since > first_night) AS known,
       good AS last_good,
       -- the last night that judged the cell, if the cell failed in it
       if(good IS NULL OR failed > good, failed, NULL) AS failed_before
FROM began;

-- mended: each cell that passes in a night and failed when it was last judged.
CREATE VIEW mended AS
SELECT now.night, cells.project, now.cell, failing.since, failing.known, cells.version
FROM past AS now
JOIN past AS failing ON failing.cell = now.cell AND failing.night = now.failed_before
JOIN cells ON cells.cell = now.cell AND cells.night = now.night
WHERE now.state IN ('passed', 'known');

-- failures: each check that a cell failed in a night, with its first problem.
CREATE VIEW failures AS
SELECT night, cell, check_id, outcome, if(path <> '', concat(path, ': ', text), text) AS summary,
       -- if several checks report one fault, only the first of them is shown
       leads OR NOT leader AS shown
FROM (
  SELECT *, coalesce(nullif(sentence, ''), reason, '') AS text,
         bool_or(leads) OVER (PARTITION BY night, cell) AS leader
  FROM checks
  WHERE outcome IN ('failed', 'broken', 'error')
)
QUALIFY row_number() OVER (
  PARTITION BY night, cell, check_id
  ORDER BY outcome <> 'failed', NOT leads, check_place, stage
) = 1;

-- broken: each failing check of a cell that failed; check_id is '' if no check failed.
CREATE VIEW broken AS
SELECT cells.night, cells.cell, cells.project, cells.version, cells.sha256,
       coalesce(now.check_id, '') AS check_id, coalesce(now.summary, cells.reason, '') AS summary,
       if(cells.cause = 'unknown' OR EXISTS (
         FROM failures AS other
         WHERE other.night = cells.night AND other.cell = cells.cell
           AND other.check_id = cells.cause
       ), '', cells.cause) AS cause,
       past.failed_before IS NULL OR before.cell IS NULL AS fresh,
       if(fresh, cells.night, past.since) AS since,
       past.known OR (fresh AND past.failed_before IS NOT NULL) AS known,
       past.last_good
FROM cells
JOIN past USING (cell, night)
LEFT JOIN failures AS now
  ON now.cell = cells.cell AND now.night = cells.night AND now.shown AND now.outcome <> 'error'
LEFT JOIN (
  SELECT failing.night, failing.cell, coalesce(failures.check_id, '') AS check_id
  FROM past AS failing
  LEFT JOIN failures ON failures.cell = failing.cell AND failures.night = failing.night
    AND failures.outcome <> 'error'
  WHERE failing.state = 'failed'
) AS before
  ON before.cell = cells.cell AND before.night = past.failed_before
  AND before.check_id = coalesce(now.check_id, '')
WHERE cells.state = 'failed';

-- faults: one check that fails in cells of one project, or of several if it says the same there.
CREATE VIEW faults AS
WITH first AS (
  SELECT *, first_value(summary) OVER (
    PARTITION BY night, fresh, project, check_id ORDER BY since, cell
  ) AS fault
  FROM broken
), ordered AS (
  SELECT night, fresh, check_id, fault AS summary,
         list_sort(list(DISTINCT project)) AS projects,
         list_transform(list_sort(list({since: since, cell: cell})), lambda each: each.cell)
           AS cells,
         count(DISTINCT summary) AS sentences,
         arg_min({since: since, known: known, cause: cause, version: version, sha256: sha256,
                  last_good: last_good}, (since, cell)) AS oldest
  FROM first
  GROUP BY night, fresh, check_id, fault
)
SELECT ordered.night, fresh, check_id, projects, len(cells) AS number, oldest.since, oldest.known,
       summary, sentences, oldest.cause, oldest.version, oldest.last_good,
       good.version AS good_version,
       good.sha256 <> '' AND good.sha256 = oldest.sha256 AS same_file, ordered.cells
FROM ordered
LEFT JOIN cells AS good ON good.cell = ordered.cells[1] AND good.night = oldest.last_good;
