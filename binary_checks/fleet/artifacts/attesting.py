"""Attesting: make verdicts on stored artifacts from result documents and from nights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion

from binary_checks.documents.json_values import DocumentError
from binary_checks.documents.result import read_results
from binary_checks.errors import TRY_AGAIN, ArtifactRefusedError, ProfileError, RecordError
from binary_checks.fleet.artifacts.artifact import CELL_AXES, FILE_AXES, Artifact
from binary_checks.fleet.artifacts.axis_claims import StatedAxes, derive_axes
from binary_checks.fleet.artifacts.kept_artifacts import find_artifact
from binary_checks.fleet.artifacts.verdict import (
    PackageVerdict,
    StatedField,
    make_verdict,
    read_statement,
    read_time,
    write_statement,
)
from binary_checks.fleet.night import Attempt, Cell, PlannedCell
from binary_checks.fleet.store import Store
from binary_checks.fleet.stored_nights import NightAttempts, require_plan
from binary_checks.knowledge.tags import read_claims
from binary_checks.model import (
    GOOD_OUTCOMES,
    Aspect,
    BinaryConfiguration,
    CellState,
    ClaimSource,
    Outcome,
    Package,
    PackageResult,
    RunResult,
    Wheel,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundVerdicts:
    """The verdicts that may be stored, and a line for each verdict that may not."""

    verdicts: tuple[PackageVerdict, ...] = ()
    refusals: tuple[str, ...] = ()
    unknown_cells: tuple[str, ...] = ()  # cells of a night whose files are not in the store
    # a line for each run that failed for a reason outside its package
    undecided: tuple[str, ...] = ()


def take_results(
    store: Store, paths: Iterable[Path], ended: str, by_hand: Mapping[str, str] | None = None
) -> FoundVerdicts:
    """Return the verdicts of result documents.

    ``ended`` is the time for documents that do not state when their run ended, or "". ``by_hand``
    are values that the user sets for fields of artifact.json; each verdict states them. A document
    that cannot be read, or that contradicts itself or the store, gives no verdict.
    """
    verdicts: list[PackageVerdict] = []
    refusals: list[str] = []
    undecided: list[str] = []
    for path in paths:
        try:
            run = read_results(path, str(path))
            found = [*_take_run(run, str(path), ended, by_hand)]
        except (ProfileError, ArtifactRefusedError) as error:
            refusals.append(str(error))
            continue
        undecided += _list_undecided(run, str(path))
        for verdict in found:
            artifact = find_artifact(store, verdict.sha256)
            if artifact is None:
                message = (
                    f"{store.url} does not contain this file ({verdict.sha256}): push it first"
                )
                refusals.append(f"{path}: {verdict.file_name}: {message}")
            elif renamed := _find_other_name(store, verdict, artifact):
                refusals.append(f"{path}: {renamed}")
            else:
                verdicts.append(verdict)
    return FoundVerdicts(
        verdicts=tuple(verdicts), refusals=tuple(refusals), undecided=tuple(undecided)
    )


def take_night(store: Store, night: str) -> FoundVerdicts:
    """Return the verdicts of all attempts of a night whose packages are in the store.

    An attempt that was lost, or that failed because of the network or the host, gives no verdict.
    """
    plan = require_plan(store, night)
    attempts = NightAttempts(store, night)
    digests = sorted({each.sha256 for each in plan.cells} - {""})
    kept = {digest: find_artifact(store, digest) for digest in digests}
    verdicts: list[PackageVerdict] = []
    refusals: list[str] = []
    unknown_cells: list[str] = []
    undecided: list[str] = []
    for planned in plan.cells:
        artifact = kept.get(planned.sha256)
        if artifact is None:
            unknown_cells += [planned.cell.id] if planned.sha256 else []
            continue
        # stage -> why its last attempts state nothing about the package
        broken: dict[str, str] = {}
        for attempt in attempts.read(planned.cell.id, refusals):
            if attempt.state in (CellState.INFRA, CellState.LOST):
                message = f"{attempt.state.value}: {attempt.reason or attempt.evidence}"
                broken[attempt.stage] = f"{attempt.cell}.{attempt.stage}{attempt.number}: {message}"
                continue
            broken.pop(attempt.stage, "")
            try:
                verdicts += _take_attempt(store, attempt, planned, artifact)
            except (ProfileError, ArtifactRefusedError) as error:
                refusals.append(str(error))
        undecided += broken.values()
    return FoundVerdicts(
        verdicts=tuple(verdicts),
        refusals=tuple(refusals),
        unknown_cells=tuple(unknown_cells),
        undecided=tuple(undecided),
    )


def _list_undecided(run: RunResult, named: str) -> Iterator[str]:
    for package in run.packages:
        if not package.parts and _is_undecided(run, package):
            errors = (e.reason for e in package.entries if e.outcome is Outcome.ERROR)
            why = next(filter(None, (*errors, *run.complaints, package.stopped)), "")
            yield f"{named}: {package.file_name}: {why}"


def _is_undecided(run: RunResult, package: PackageResult) -> bool:
    """Return whether the network or the host failed, so that the run judges nothing."""
    broke = run.exit_code == TRY_AGAIN and package.verdict not in GOOD_OUTCOMES
    return broke or package.verdict is Outcome.ERROR


def _find_other_name(store: Store, verdict: PackageVerdict, artifact: Artifact) -> str:
    """Return a message if the store has the judged bytes under another file name, else "".

    A file name states tags and variants, so only the name that was judged may be signed.
    """
    if verdict.file_name == artifact.file_name:
        return ""
    return (
        f"{verdict.file_name}: {store.url} stores this file as {artifact.file_name}: judge it "
        "under that name"
    )


def _take_run(
    run: RunResult, named: str, ended: str, by_hand: Mapping[str, str] | None = None
) -> Iterator[PackageVerdict]:
    """Yield a verdict for each package that the run judged.

    Raises ProfileError for a package without a hash or listed twice, or if no time is known.
    """
    if not (run.ended or ended):
        lacking = (
            "it does not state when the run ended (an older binary-checks wrote it): give --ended"
        )
        raise ProfileError(f"{named}: {lacking}")
    packages = [each for each in run.packages if not each.parts]
    if not packages:
        raise ProfileError(f"{named}: it has no package")
    counted = Counter(each.sha256 for each in packages)
    for package in packages:
        if not package.sha256:
            what = (
                "an installed copy"
                if package.record_sha256
                else "it does not state which bytes were judged"
            )
            raise ProfileError(f"{named}: {package.file_name}: no sha256: {what}")
        if counted[package.sha256] > 1:
            raise ProfileError(f"{named}: {package.sha256}: two verdicts on the same bytes")
        if not _is_undecided(run, package):
            verdict = make_verdict(run, package, ended=ended)
            stated = state_fields(package, by_hand)
            yield _require_statable(replace(verdict, stated=stated), named)


def _take_attempt(
    store: Store, attempt: Attempt, planned: PlannedCell, artifact: Artifact
) -> list[PackageVerdict]:
    sha256 = planned.sha256
    if attempt.result is None or attempt.sha256 != sha256:
        return []
    named = f"{store.url}: night {attempt.night}: {attempt.cell}.{attempt.stage}{attempt.number}"
    run = attempt.result
    if planned.cell.place and not run.places:
        # written by a version that did not record places
        run = replace(run, places=(planned.cell.place,))
    began = _read_start(attempt, named)
    ended = (began + timedelta(seconds=attempt.seconds)).isoformat(timespec="seconds")
    found = [*_take_run(run, named, ended, _confirm(planned.cell, artifact, run))]
    if not found:  # the host or the network failed
        return []
    if [each.sha256 for each in found] != [sha256]:
        raise ProfileError(f"{named}: its result is for other bytes than those planned: {sha256}")
    if renamed := _find_other_name(store, found[0], artifact):
        raise ProfileError(f"{named}: {renamed}")
    return [
        replace(each, night=attempt.night, cell=attempt.cell, stage=attempt.stage) for each in found
    ]


def _confirm(cell: Cell, artifact: Artifact, run: RunResult) -> dict[str, str]:
    """Return the axes that were set by hand at the push, and that the planned cell confirms.

    An axis counts only if the push set its value, because a cell's value alone proves nothing: a
    file without a variant may serve a cell that has one.
    """
    known = {each.name: each.value for package in run.packages for each in state_fields(package)}
    return {
        axis: value
        for axis in CELL_AXES
        if (value := getattr(cell, axis)) == getattr(artifact, axis) != known.get(axis, "") == ""
    }


def _read_start(attempt: Attempt, named: str) -> datetime:
    try:
        return read_time(attempt.started)
    except DocumentError as error:
        raise ProfileError(f"{named}: started: {error}") from None


def _require_statable(verdict: PackageVerdict, named: str) -> PackageVerdict:
    """Return the verdict; raise ProfileError if no valid statement can contain it."""
    try:
        return read_statement(write_statement(verdict), f"{named}: {verdict.file_name}")
    except RecordError as error:
        raise ProfileError(str(error)) from None


# The fields of artifact.json that a verdict states, taken from the attested result document.
#
# artifact.json is not signed, so a gate relies on statements of signed verdicts. A run states only
# what it knows for sure. The platform of a conda package, for example, or a library's libc, may be
# known only from the bytes, and a gate reads the bytes again.

_ALWAYS = ("variant", "cxx_abi", "libtorch")
"""Axes that a result always states; an empty value says that the file has none."""
_CONDA = (".conda", ".tar.bz2")


def state_fields(
    package: PackageResult, by_hand: Mapping[str, str] | None = None
) -> tuple[StatedField, ...]:
    """Return the fields of artifact.json that a result states, and the fields set by hand.

    Raises ArtifactRefusedError if the result contradicts a value that is set by hand.
    """
    given = by_hand or {}
    found = dict(_read_result(package, given))
    found |= {name: value for name, value in given.items() if name not in FILE_AXES}
    return tuple(
        StatedField(name=name, value=value, by_hand=name in given)
        for name, value in sorted(found.items())
    )


def _read_result(package: PackageResult, by_hand: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    kind = _name_kind(package)
    if kind:
        yield "kind", kind
    if kind == "wheel":
        yield from (("project", canonicalize_name(package.name)), ("subdir", ""))
    elif kind == "conda":
        yield "project", package.name
    if package.version:
        yield "version", package.version
    yield from _read_axes(package, kind, by_hand).items()


def _name_kind(package: PackageResult) -> str:
    """Return the kind if the file's name and the result leave no doubt, else ""."""
    name = package.file_name
    if name.endswith(".whl"):
        return "wheel"
    if name.endswith(_CONDA):
        return "conda"
    found = package.configuration.kind.value if package.configuration else ""
    return "libtorch" if found == "libtorch" and package.name.startswith("libtorch") else ""


def _read_axes(package: PackageResult, kind: str, by_hand: Mapping[str, str]) -> dict[str, str]:
    axes = {name: value for name, value in by_hand.items() if name in FILE_AXES}
    if package.configuration is None:
        return axes
    stand_in = _make_stand_in(package.file_name)
    sure = _keep_certain(package.configuration, kind)
    try:
        found = derive_axes(stand_in, sure, StatedAxes(by_hand=axes))
    except ArtifactRefusedError:
        if axes:
            raise
        return {}  # the bytes will decide
    if kind != "libtorch" and "libtorch" not in axes:
        found.pop("libtorch", None)
    return {**dict.fromkeys(_ALWAYS, ""), **{name: each.value for name, each in found.items()}}


def _make_stand_in(file_name: str) -> Package:
    """Return a package without objects, whose only claims are those in the file's name."""
    path = Path(file_name)
    try:
        claims = read_claims(parse_wheel_filename(file_name)[3])
    except (InvalidWheelFilename, InvalidVersion):
        return Package(path=path)
    return Wheel(path=path, claims=claims)


def _keep_certain(configuration: BinaryConfiguration, kind: str) -> BinaryConfiguration:
    """Remove the platform and the Python unless objects and file name agree on them.

    A wheel's Python is kept, because its tags state it.
    """
    names = ("system", "architecture") if kind == "wheel" else ("system", "architecture", "python")
    unsure = [name for name in names if not _is_certain(getattr(configuration, name))]
    return replace(configuration, **dict.fromkeys(unsure, Aspect()))


def _is_certain(aspect: Aspect) -> bool:
    by_source: dict[ClaimSource, set[str]] = {}
    for each in aspect.claims:
        by_source.setdefault(each.source, set()).add(each.value)
    found, named = by_source.get(ClaimSource.BYTES), by_source.get(ClaimSource.NAME)
    return found is not None and found == named
