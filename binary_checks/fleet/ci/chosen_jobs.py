"""Which cells a run of CI makes its jobs of: by the event that began it, and what it asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells.choosing import ALSO, LABELS, ONLY
from binary_checks.fleet.cells.tiers import NIGHTLY, TIERS
from binary_checks.fleet.ci.pipeline import Pipeline, PipelineCell
from binary_checks.fleet.nights.night_dates import tonight

PR, MERGE = "pr", "merge"
TIER, TRIGGER = "BINARY_CHECKS_TIER", "BINARY_CHECKS_TRIGGER"
"""Variables: a tier that is asked for, and what began a pipeline of CircleCI."""
GITLAB_LABELS = "CI_MERGE_REQUEST_LABELS"
ASKED = (TIER, ONLY, ALSO, LABELS)
WHOLE = "1/1"
MOST_ROWS = 256  # jobs that GitHub and Azure make of one matrix


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenJobs:
    """The cells of one run, and whether it is a night."""

    pipeline: Pipeline
    cells: tuple[PipelineCell, ...]  # that are built and tested
    tier: str
    date: str  # of the night, in UTC
    shard: str = WHOLE  # of the run; its first one has the night

    @property
    def is_night(self) -> bool:
        """Whether the published packages are judged, too."""
        first = self.shard.startswith("1/")
        return bool(first and self.tier == NIGHTLY and self.pipeline.settings.store)


def choose_jobs(
    pipeline: Pipeline, system: str, chosen: Sequence[str], tier: str, shard: str = WHOLE
) -> ChosenJobs:
    """The jobs of a run for cells of these ids. Raises ProfileError without a machine."""
    pipeline.demand_machines(system)
    ids = set(chosen)
    cells = pipeline.cells if pipeline.settings.build else ()
    return ChosenJobs(
        pipeline=pipeline,
        cells=tuple(each for each in cells if each.id in ids),
        tier=tier,
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


def find_tier(system: str, environment: Mapping[str, str], branch: str) -> str:
    """The tier of a run by the variables of its CI system. Raises ProfileError."""
    if asked := environment.get(TIER, ""):
        if asked not in TIERS:
            raise ProfileError(f"{TIER}: {asked!r:.40} is not one of: {', '.join(TIERS)}")
        return asked
    if system == "github":
        events = {"pull_request": PR, "push": MERGE}
        return events.get(environment.get("GITHUB_EVENT_NAME", ""), NIGHTLY)
    if system == "gitlab":
        events = {"merge_request_event": PR, "push": MERGE}
        return events.get(environment.get("CI_PIPELINE_SOURCE", ""), NIGHTLY)
    if system == "azure":
        events = {"PullRequest": PR, "Schedule": NIGHTLY, "Manual": NIGHTLY}
        return events.get(environment.get("BUILD_REASON", ""), MERGE)
    if environment.get(TRIGGER) == "scheduled_pipeline" or environment.get(ONLY):
        return NIGHTLY  # CircleCI: all cells may be asked for
    return MERGE if environment.get("CIRCLE_BRANCH") == branch else PR
