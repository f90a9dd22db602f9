"""Attesting: make verdicts on stored artifacts from result documents and from nights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from binary_checks.documents.result import read_results
from binary_checks.errors import TRY_AGAIN, ProfileError, RecordError
from binary_checks.fleet.artifacts.artifact import Artifact, hash_record
from binary_checks.fleet.artifacts.kept_artifacts import find_artifact
from binary_checks.fleet.artifacts.verdict import (
    PackageVerdict,
    make_verdict,
    read_statement,
    write_statement,
)
from binary_checks.fleet.night import Attempt
from binary_checks.fleet.store import Store
from binary_checks.fleet.stored_nights import NightAttempts, require_plan
from binary_checks.model import GOOD_OUTCOMES, CellState, Outcome, PackageResult, RunResult


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundVerdicts:
    """The verdicts that may be stored, and a line for each verdict that may not."""

    verdicts: list[PackageVerdict] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    # cells of a night whose files are not in the store
    unknown_cells: list[str] = field(default_factory=list)
    # a line for each run that failed for a reason outside its package
    undecided: list[str] = field(default_factory=list)


def take_results(store: Store, paths: Iterable[Path]) -> FoundVerdicts:
    """Return the verdicts of result documents.

    A document that cannot be read, or that contradicts itself or the store, gives no verdict.
    """
    found = FoundVerdicts()
    for path in paths:
        try:
            run = read_results(path, str(path))
            packages = _list_packages(run, str(path))
        except ProfileError as error:
            found.refusals.append(str(error))
            continue
        for package in packages:
            if _is_undecided(run, package):
                errors = (each.reason for each in package.entries if each.outcome is Outcome.ERROR)
                why = next(filter(None, (*errors, *run.complaints, package.stopped)), "")
                found.undecided.append(f"{path}: {package.file_name}: {why}")
                continue
            try:
                artifact = find_artifact(store, package.sha256)
                found.verdicts.append(_vouch(store, artifact, run, package, str(path)))
            except ProfileError as error:
                found.refusals.append(str(error))
    return found


def take_night(store: Store, night: str) -> FoundVerdicts:
    """Return the verdicts of all attempts of a night whose packages are in the store.

    An attempt that was lost, or that failed because of the network or the host, gives no verdict.
    """
    plan = require_plan(store, night)
    attempts = NightAttempts(store, night)
    digests = sorted({each.sha256 for each in plan.cells} - {""})
    kept = {digest: find_artifact(store, digest) for digest in digests}
    found = FoundVerdicts()
    for planned in plan.cells:
        artifact = kept.get(planned.sha256)
        if artifact is None:
            found.unknown_cells.extend([planned.cell.id] if planned.sha256 else [])
            continue
        # stage -> why its last attempts state nothing about the package
        broken: dict[str, str] = {}
        for attempt in attempts.read(planned.cell.id, found.refusals):
            if attempt.state in (CellState.INFRA, CellState.LOST):
                message = f"{attempt.state.value}: {attempt.reason or attempt.evidence}"
                broken[attempt.stage] = f"{attempt.cell}.{attempt.stage}{attempt.number}: {message}"
                continue
            broken.pop(attempt.stage, "")
            try:
                found.verdicts.extend(_take_attempt(store, attempt, artifact))
            except ProfileError as error:
                found.refusals.append(str(error))
        found.undecided.extend(broken.values())
    return found


def _take_attempt(store: Store, attempt: Attempt, artifact: Artifact) -> list[PackageVerdict]:
    """Return the verdict of an attempt, or none if the host or the network failed."""
    run = attempt.result
    if run is None or attempt.sha256 != artifact.sha256:
        return []
    named = f"{store.url}: night {attempt.night}: {attempt.cell}.{attempt.stage}{attempt.number}"
    packages = _list_packages(run, named)
    if [each.sha256 for each in packages] != [artifact.sha256]:
        raise ProfileError(
            f"{named}: its result is for other bytes than those planned: {artifact.sha256}"
        )
    return [
        replace(
            _vouch(store, artifact, run, each, named),
            night=attempt.night,
            cell=attempt.cell,
            stage=attempt.stage,
        )
        for each in packages
        if not _is_undecided(run, each)
    ]


def _list_packages(run: RunResult, named: str) -> list[PackageResult]:
    """Return the packages that the run judged.

    Raises ProfileError for a package without a hash or listed twice.
    """
    packages = [each for each in run.packages if not each.parts]
    if not packages:
        raise ProfileError(f"{named}: it has no package")
    counted = Counter(each.sha256 for each in packages)
    for package in packages:
        if not package.sha256:
            message = (
                "no sha256 of the bytes that were judged; of an installed copy, judge the file"
            )
            raise ProfileError(f"{named}: {package.file_name}: {message}")
        if counted[package.sha256] > 1:
            raise ProfileError(f"{named}: {package.sha256}: two verdicts on the same bytes")
    return packages


def _is_undecided(run: RunResult, package: PackageResult) -> bool:
    """Return whether the network or the host failed, so that the run judges nothing."""
    broke = run.exit_code == TRY_AGAIN and package.verdict not in GOOD_OUTCOMES
    return broke or package.verdict is Outcome.ERROR


def _vouch(
    store: Store, artifact: Artifact | None, run: RunResult, package: PackageResult, named: str
) -> PackageVerdict:
    """Return the verdict on an artifact. Raises ProfileError if no verdict can be stated."""
    where = f"{named}: {package.file_name}"
    if artifact is None:
        message = f"{store.url} does not contain this file ({package.sha256}): push it first"
        raise ProfileError(f"{where}: {message}")
    if package.file_name != artifact.file_name:  # which states tags and variants
        message = f"{store.url} stores this file as {artifact.file_name}: judge it under that name"
        raise ProfileError(f"{where}: {message}")
    statement = write_statement(make_verdict(run, package, hash_record(artifact)))
    try:
        return read_statement(statement, where)
    except RecordError as error:
        raise ProfileError(str(error)) from None
