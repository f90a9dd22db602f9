"""Pages of commits and pull requests: the builds that a store has of them, and their verdicts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from operator import itemgetter

from binary_checks.fleet.artifacts import (
    FILE_AXES,
    Artifact,
    FoundArtifact,
    label_verdicts,
    list_found,
    list_verdicts,
    parse_upload_time,
)
from binary_checks.fleet.page.naming import format_text, label_by_difference, name_cell_page
from binary_checks.fleet.page.night_reading import NightView, Row
from binary_checks.fleet.store import Store, ask_at_once
from binary_checks.model import FAILING, PASSING, UNTESTED
from binary_checks.safe_text import cut, one_line

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_EARLIEST = datetime.min.replace(tzinfo=timezone.utc)
VERDICTS: Mapping[str, tuple[str, str]] = {
    PASSING: ("P", "ok"),
    FAILING: ("X", "bad"),
    UNTESTED: ("?", "mild"),
}
"""Label of a build -> its letter and its tone."""
COMMIT_LEGEND = tuple((*words, label) for label, words in VERDICTS.items())


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitPages:
    """The commits of a site, the newest first."""

    commits: tuple[Row, ...] = ()  # each with its builds, the failing ones first
    left_out: int = 0  # older commits
    complaints: tuple[str, ...] = ()  # documents that could not be read, a line each

    @property
    def pulls(self) -> dict[str, list[Row]]:
        """The commits of each pull request, the newest first."""
        found: dict[str, list[Row]] = {}
        for each in self.commits:
            if each["pull_request"]:
                found.setdefault(each["pull_request"], []).append(each)
        return found

    def by_package(self) -> dict[str, str]:
        """Return SHA-256 of a package -> the commit that it was built from."""
        return {
            build["sha256"]: page["commit"] for page in self.commits for build in page["builds"]
        }


def read_commits(
    store: Store, view: NightView | None, *, shown: int, project: str = ""
) -> CommitPages:
    """Return the ``shown`` commits whose first builds were pushed last, with all their builds.

    Artifacts that name no commit are left out.
    """
    if shown <= 0:
        return CommitPages()
    broken: list[str] = []
    by_commit: dict[str, list[FoundArtifact]] = {}
    for each in list_found(store, broken=broken):
        artifact = each.artifact
        if _COMMIT.fullmatch(artifact.commit) and project in ("", artifact.project):
            by_commit.setdefault(artifact.commit, []).append(each)
    newest = sorted(by_commit, key=lambda commit: (_began(by_commit[commit]), commit), reverse=True)
    every = [each for commit in newest[:shown] for each in by_commit[commit]]
    labels = label_by_difference({each.artifact.sha256: _axes(each.artifact) for each in every})
    nights: dict[str, list[Row]] = {}
    if view:
        tonight = {row["cell"] for row in view.ask("matrix") if row["night"] == view.night}
        packages = " ".join(each.artifact.sha256 for each in every)
        for row in view.ask("judged", packages=packages):
            row["href"] = name_cell_page(row["cell"]) if row["cell"] in tonight else ""
            nights.setdefault(row["sha256"], []).append(row)
    judged = _judge(store, every, broken)
    pages = []
    for commit in newest[:shown]:
        builds = [
            _build(each, labels, judged[each.artifact.sha256], nights.get(each.artifact.sha256, []))
            for each in by_commit[commit]
        ]
        pages.append(_page(commit, by_commit[commit], builds))
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


def _judge(
    store: Store, found: Sequence[FoundArtifact], broken: list[str]
) -> dict[str, tuple[str, str]]:
    """Return SHA-256 -> label and reason, from all stored verdicts; signatures are not verified."""

    def judge(sha256: str) -> tuple[str, str, list[str]]:
        faults: list[str] = []
        verdicts = [each.verdict for each in list_verdicts(store, sha256, broken=faults)]
        newest = sorted(verdicts, key=lambda each: each.ended, reverse=True)
        reason = next(filter(None, (each.format_reason() for each in newest)), "")
        return label_verdicts(verdicts), reason, faults

    digests = [*dict.fromkeys(each.artifact.sha256 for each in found)]
    judged: dict[str, tuple[str, str]] = {}
    for sha256, (label, reason, faults) in zip(digests, ask_at_once(judge, digests), strict=True):
        broken += faults
        judged[sha256] = (label, reason if label != PASSING else "")
    return judged


def _build(
    found: FoundArtifact, labels: Mapping[str, str], judged: tuple[str, str], nights: Sequence[Row]
) -> Row:
    artifact, (label, reason) = found.artifact, judged
    if label == UNTESTED and nights and nights[0]["verdict"] != UNTESTED:  # the nights decide
        label = nights[0]["verdict"]
        reason = nights[0]["reason"] if label == FAILING else ""
    letter, tone = VERDICTS[label]
    return {
        "sha256": artifact.sha256,
        "anchor": f"build-{artifact.sha256[:16]}",
        "file_name": format_text(artifact.file_name, 200),
        "project": format_text(artifact.project),
        "label": format_text(labels[artifact.sha256] or artifact.file_name),
        "verdict": label,
        "letter": letter,
        "tone": tone,
        "reason": format_text(reason, 400),
        "channels": format_text(", ".join(found.channels), 120),
        "nights": nights,
    }


def _page(commit: str, found: Sequence[FoundArtifact], builds: Sequence[Row]) -> Row:
    order = (FAILING, UNTESTED, PASSING)
    began = _began(found)
    numbers = (each.artifact.pull_request for each in found)
    projects = sorted({format_text(each.artifact.project) for each in found})
    counts = Counter(each["verdict"] for each in builds)
    key = itemgetter("project", "label")
    return {
        "commit": commit,
        "pushed": "" if began == _EARLIEST else began.strftime("%Y-%m-%d %H:%M"),  # in UTC
        "pull_request": next(filter(None, numbers), ""),
        "projects": format_text(", ".join(projects), 120),
        "builds": sorted(builds, key=lambda row: (order.index(row["verdict"]), key(row))),
        "counts": {label: counts[label] for label in VERDICTS if counts[label]},
    }
