"""Pages of commits and pull requests: the builds that a store has of them, and their verdicts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from binary_checks.fleet.artifacts import (
    FILE_AXES,
    Artifact,
    FoundArtifact,
    PackageVerdict,
    label_verdicts,
    list_found,
    list_verdicts,
    parse_upload_time,
)
from binary_checks.fleet.night import DECIDED
from binary_checks.fleet.page.history import CellNight, History
from binary_checks.fleet.page.naming import (
    MARKS,
    TONES,
    format_text,
    label_by_difference,
    name_cell_page,
)
from binary_checks.fleet.store import Store, ask_at_once
from binary_checks.model import FAILING, PASSING, UNTESTED, CellState
from binary_checks.safe_text import cut, one_line

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_EARLIEST = datetime.min.replace(tzinfo=timezone.utc)
_SHORT = 10  # digits of a commit that are shown
_MARKED = 60  # builds of one commit that have a mark in a list
_VERDICTS: Mapping[str, tuple[str, str]] = {
    PASSING: ("P", "ok"),
    FAILING: ("X", "bad"),
    UNTESTED: ("?", "mild"),
}
"""Label of a build -> its letter and its tone."""
COMMIT_LEGEND = tuple((*_VERDICTS[label], label) for label in (PASSING, FAILING, UNTESTED))


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedNight:
    """How a cell ended in the last night that judged a build."""

    cell: str
    night: str
    state: CellState
    letter: str
    tone: str
    reason: str  # why it failed
    href: str  # of the cell's page, or ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitBuild:
    """One artifact that was built from a commit."""

    sha256: str
    anchor: str
    file_name: str
    project: str
    label: str  # the axes in which it differs from other builds of the site
    verdict: str  # passed, failing, untested
    letter: str
    tone: str
    reason: str  # why it fails
    channels: str
    nights: tuple[JudgedNight, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitPage:
    """One commit with its builds, the failing ones first."""

    commit: str
    short: str
    pushed: str  # date and time of the first push, in UTC; "" if unknown
    pull_request: str
    projects: str
    builds: tuple[CommitBuild, ...]

    @property
    def tally(self) -> tuple[tuple[str, str, str], ...]:
        """Tone, number and word of each verdict that a build has."""
        counts = Counter(each.verdict for each in self.builds)
        return tuple(
            (_VERDICTS[label][1], f"{counts[label]:,}", label)
            for label in (PASSING, FAILING, UNTESTED)
            if counts[label]
        )

    @property
    def tone(self) -> str:
        """The tone of the whole commit."""
        tones = {each.tone for each in self.builds}
        return "bad" if "bad" in tones else "mild" if "mild" in tones else "good"

    @property
    def marked(self) -> tuple[CommitBuild, ...]:
        """The builds that have a mark in lists, in the same order for each commit."""
        every = sorted(self.builds, key=lambda each: (each.project, each.label, each.file_name))
        return tuple(every[:_MARKED])


@dataclass(frozen=True, kw_only=True, slots=True)
class PullPage:
    """One pull request with the commits that were built for it, the newest first."""

    number: str
    commits: tuple[CommitPage, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitPages:
    """The commits of a site, the newest first."""

    commits: tuple[CommitPage, ...] = ()
    left_out: int = 0  # older commits
    complaints: tuple[str, ...] = ()  # documents that could not be read, a line each

    @property
    def pulls(self) -> tuple[PullPage, ...]:
        """The pull requests of these commits, the newest first."""
        found: dict[str, list[CommitPage]] = {}
        for each in self.commits:
            if each.pull_request:
                found.setdefault(each.pull_request, []).append(each)
        return tuple(PullPage(number=number, commits=tuple(of)) for number, of in found.items())

    def by_package(self) -> dict[str, CommitPage]:
        """Return SHA-256 of a package -> the commit that it was built from."""
        return {build.sha256: page for page in self.commits for build in page.builds}


def read_commits(
    store: Store, history: History | None, *, shown: int, project: str = ""
) -> CommitPages:
    """Return the ``shown`` commits whose first builds were pushed last, with all their builds.

    Artifacts that name no commit are left out.
    """
    if not shown:
        return CommitPages()
    broken: list[str] = []
    by_commit: dict[str, list[FoundArtifact]] = {}
    for each in list_found(store, broken=broken):
        artifact = each.artifact
        if _COMMIT.fullmatch(artifact.commit) and project in ("", artifact.project):
            by_commit.setdefault(artifact.commit, []).append(each)
    newest = sorted(by_commit, key=lambda commit: (_began(by_commit[commit]), commit), reverse=True)
    chosen = {commit: by_commit[commit] for commit in newest[:shown]}
    every = [each for found in chosen.values() for each in found]
    labels = label_by_difference({each.artifact.sha256: _axes(each.artifact) for each in every})
    nights = _list_nights(history) if history else {}
    judged = _judge(store, every, broken)
    pages = []
    for commit, found in chosen.items():
        builds = [
            _build(each, labels, judged[each.artifact.sha256], nights.get(each.artifact.sha256, ()))
            for each in found
        ]
        pages.append(_page(commit, found, builds))
    return CommitPages(
        commits=tuple(pages),
        left_out=len(newest) - len(pages),
        complaints=tuple(cut(one_line(each)) for each in broken),
    )


def _began(found: Iterable[FoundArtifact]) -> datetime:
    """Return the time of the first push."""
    times = (parse_upload_time(each.artifact.pushed) for each in found)
    return min((each for each in times if each), default=_EARLIEST)


def _axes(artifact: Artifact) -> dict[str, str]:
    return {name: str(getattr(artifact, name)) for name in ("kind", *FILE_AXES)}


def _list_nights(history: History) -> dict[str, tuple[JudgedNight, ...]]:
    """Return SHA-256 -> the last night of each cell that had this package."""
    tonight = {row.cell for row in history.tonight()}
    found: dict[str, dict[str, JudgedNight]] = {}
    for cell, rows in history.cells.items():
        for night in sorted(rows):
            row = rows[night]
            if row.sha256:
                href = name_cell_page(cell) if cell in tonight else ""
                found.setdefault(row.sha256, {})[cell] = JudgedNight(
                    cell=format_text(cell),
                    night=night,
                    state=row.state,
                    letter=MARKS[row.state],
                    tone=TONES[row.state],
                    reason=_explain_night(history, row),
                    href=href,
                )
    return {sha256: tuple(of.values()) for sha256, of in found.items()}


def _explain_night(history: History, row: CellNight) -> str:
    failed = history.failures.get((row.cell, row.night), ())
    return f"{failed[0].check}: {failed[0].summary}" if failed else row.reason


def _judge(
    store: Store, found: Sequence[FoundArtifact], broken: list[str]
) -> dict[str, tuple[str, str]]:
    """Return SHA-256 -> label and reason, from all stored verdicts; signatures are not verified."""

    def judge(sha256: str) -> tuple[str, str, list[str]]:
        faults: list[str] = []
        verdicts = [each.verdict for each in list_verdicts(store, sha256, broken=faults)]
        return label_verdicts(verdicts), _explain(verdicts), faults

    digests = [*dict.fromkeys(each.artifact.sha256 for each in found)]
    judged: dict[str, tuple[str, str]] = {}
    for sha256, (label, reason, faults) in zip(digests, ask_at_once(judge, digests), strict=True):
        broken += faults
        judged[sha256] = (label, reason if label != PASSING else "")
    return judged


def _explain(verdicts: Iterable[PackageVerdict]) -> str:
    """Return the reason of the newest verdict that gives one."""
    newest = sorted(verdicts, key=lambda each: each.ended, reverse=True)
    return next(filter(None, (each.format_reason() for each in newest)), "")


def _judge_by_nights(nights: Sequence[JudgedNight], reason: str) -> tuple[str, str]:
    """Return label and reason of a build without a decisive verdict: the nights decide."""
    decided = [each for each in nights if each.state in DECIDED]
    failed = [each for each in decided if each.state is CellState.FAILED]
    if failed:
        return FAILING, failed[0].reason
    return (PASSING, "") if decided else (UNTESTED, reason)


def _build(
    found: FoundArtifact,
    labels: Mapping[str, str],
    judged: tuple[str, str],
    nights: tuple[JudgedNight, ...],
) -> CommitBuild:
    artifact, (label, reason) = found.artifact, judged
    if label == UNTESTED:
        label, reason = _judge_by_nights(nights, reason)
    letter, tone = _VERDICTS[label]
    return CommitBuild(
        sha256=artifact.sha256,
        anchor=f"build-{artifact.sha256[:16]}",
        file_name=format_text(artifact.file_name, 200),
        project=format_text(artifact.project),
        label=format_text(labels[artifact.sha256] or artifact.file_name),
        verdict=label,
        letter=letter,
        tone=tone,
        reason=format_text(reason, 400),
        channels=format_text(", ".join(found.channels), 120),
        nights=nights,
    )


def _page(commit: str, found: Sequence[FoundArtifact], builds: Iterable[CommitBuild]) -> CommitPage:
    order = {label: rank for rank, label in enumerate((FAILING, UNTESTED, PASSING))}
    began = _began(found)
    numbers = (each.artifact.pull_request for each in found)
    projects = sorted({format_text(each.artifact.project) for each in found})
    return CommitPage(
        commit=commit,
        short=commit[:_SHORT],
        pushed="" if began == _EARLIEST else began.strftime("%Y-%m-%d %H:%M"),
        pull_request=next(filter(None, numbers), ""),
        projects=format_text(", ".join(projects), 120),
        builds=tuple(
            sorted(builds, key=lambda each: (order[each.verdict], each.project, each.label))
        ),
    )
