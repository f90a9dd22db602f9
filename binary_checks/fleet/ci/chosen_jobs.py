"""Which cells a run of CI makes its jobs of: by the event that began it, and what it asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells.choosing import ONLY
from binary_checks.fleet.cells.tiers import NIGHTLY, TIERS
from binary_checks.fleet.ci.pipeline import Pipeline, PipelineCell
from binary_checks.fleet.nights.night_dates import tonight

PR, MERGE = "pr", "merge"
TIER, TRIGGER = "BINARY_CHECKS_TIER", "BINARY_CHECKS_TRIGGER"
"""Variables: a tier that is asked for, and what began a pipeline of CircleCI."""
EVENT = "BINARY_CHECKS_EVENT"
"""The variable with which a pipeline of GitLab tells its children what began it."""
GITLAB_LABELS = "CI_MERGE_REQUEST_LABELS"
WHOLE = "1/1"
MOST_ROWS = 256  # jobs that GitHub and Azure make of one matrix


class _Events(NamedTuple):
    """How a CI system says what began a run."""

    variable: str
    named: Mapping[str, str]
    other: str


_EVENTS: Mapping[str, _Events] = {
    "github": _Events("GITHUB_EVENT_NAME", {"pull_request": PR, "push": MERGE}, NIGHTLY),
    "gitlab": _Events("CI_PIPELINE_SOURCE", {"merge_request_event": PR, "push": MERGE}, NIGHTLY),
    "azure": _Events(
        "BUILD_REASON", {"PullRequest": PR, "Schedule": NIGHTLY, "Manual": NIGHTLY}, MERGE
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CiRun:
    """What began a run, and which tier it asks for; a label may widen the tier, never the event."""

    event: str  # pr, merge, nightly: what the run may do, as publishing
    tier: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenJobs:
    """The cells of one run, and whether it is a night."""

    pipeline: Pipeline
    cells: tuple[PipelineCell, ...]  # that are built and tested
    run: CiRun
    date: str  # of the night, in UTC
    shard: str = WHOLE  # of the run; its first one has the night

    @property
    def is_night(self) -> bool:
        """Whether the published packages are judged, too."""
        first = self.shard.startswith("1/")
        nightly = self.run == CiRun(event=NIGHTLY, tier=NIGHTLY)
        return bool(first and nightly and self.pipeline.settings.store)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages of a chain; a pull request publishes nothing, whatever its labels say."""
        stages = self.pipeline.stages
        return tuple(each for each in stages if each != "publish" or self.run.event != PR)


def choose_jobs(
    pipeline: Pipeline, system: str, chosen: Sequence[str], run: CiRun, shard: str = WHOLE
) -> ChosenJobs:
    """The jobs of a run for cells of these ids. Raises ProfileError without a machine."""
    pipeline.demand_machines(system)
    ids = set(chosen)
    cells = pipeline.cells if pipeline.settings.build else ()
    return ChosenJobs(
        pipeline=pipeline,
        cells=tuple(each for each in cells if each.id in ids),
        run=run,
        date=tonight(),
        shard=shard,
    )


def demand_rows(rows: Sequence[object], system: str, what: str) -> None:
    """Raise ProfileError for more jobs than a matrix may have."""
    if len(rows) > MOST_ROWS:
        raise ProfileError(
            f"cells --ci {system}: {len(rows):,} jobs of {what}, of which {system} makes "
            f"{MOST_ROWS}; narrow it"
        )


def find_run(system: str, environment: Mapping[str, str], branch: str) -> CiRun:
    """What began a run, by the variables of its CI system. Raises ProfileError."""
    asked = environment.get(TIER, "")
    if asked and asked not in TIERS:
        raise ProfileError(f"{TIER}: {asked!r:.40} is not one of: {', '.join(TIERS)}")
    if system == "circleci":
        return _find_circleci(environment, branch, asked)
    events = _EVENTS[system]
    said = environment.get(events.variable, "")
    event = environment.get(EVENT) or events.named.get(said, events.other)
    return CiRun(event=event, tier=asked or event)


def _find_circleci(environment: Mapping[str, str], branch: str, asked: str) -> CiRun:
    """A run by hand names its tier, or cells of which any may be meant."""
    if asked:
        return CiRun(event=asked, tier=asked)
    if environment.get(TRIGGER) == "scheduled_pipeline":
        return CiRun(event=NIGHTLY, tier=NIGHTLY)
    if environment.get(ONLY):
        return CiRun(event=MERGE, tier=NIGHTLY)
    event = MERGE if environment.get("CIRCLE_BRANCH") == branch else PR
    return CiRun(event=event, tier=event)
