"""Merge the results of other stores, such as folders that CI jobs uploaded, into a night.

A CI job that has no credentials for the store runs its cells in a copy of the folder in which the
night was planned, and uploads that copy. The job may come from a fork, so that only results of
cells in the store's own plan are merged, with their logs and facts.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from binary_checks.documents.json_values import DocumentError, decode_fields, encode_fields
from binary_checks.errors import ProfileError, RecordError, StoreError
from binary_checks.fleet.night import (
    CPU,
    GOOD,
    GPU,
    Attempt,
    CellEnd,
    NightPlan,
    PlannedCell,
    end_stage,
    is_conclusive,
    rank,
)
from binary_checks.fleet.nights.coordinator_log import merge_coordinator_logs
from binary_checks.fleet.store import (
    MARK,
    Store,
    closed_name,
    open_store,
    plan_name,
    result_name,
    result_prefix,
    split_attempt,
)
from binary_checks.fleet.store.kept_facts import find_facts, identify_facts, keep_facts, open_facts
from binary_checks.fleet.stored_nights import (
    find_plan,
    name_log,
    open_document,
    read_stored_attempt,
    write_attempt,
    write_document,
)

_DEPTH = 2  # levels of folders to search for stores: a folder for each artifact, and folders in it
_MOST_ATTEMPTS = 100  # of one stage of a cell; a night makes three, and each job may make its own
# bytes; an attempt keeps 1 MiB of its output's beginning and 1 MiB of its end
_LARGEST_LOG = 4 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Merged:
    """The result of a merge: numbers of documents, and complaints about results left out."""

    attempts: int = 0  # new documents
    known: int = 0  # documents that the store had already
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """An attempt in one of the stores."""

    store: Store
    name: str
    attempt: Attempt  # without its result, because those of a whole night would not fit into memory
    digest: str  # equal for equal attempts, whatever their numbers and wherever their facts are


def merge_night(store: Store, night: str, folders: Sequence[Path]) -> Merged:
    """Copy results of the night, with logs and facts, from stores in the folders into the store.

    The logs of the jobs' coordinators are copied, too.

    Everything is read before anything is written, and the order of the folders does not matter. If
    folders disagree about a cell, the worse result counts, and a line names both. Merging twice is
    the same as merging once.

    Raises ProfileError if the store has no plan of that night, or a folder contains no store, and
    StoreError if a folder has another plan of that night, whose results may be of other bytes.
    """
    plan, planned = find_plan(store, night), store.read(plan_name(night))
    if plan is None or planned is None:
        raise ProfileError(
            f"--from: {store.url} has no plan of {night}; collect "
            "into the store in which the night was planned"
        )
    complaints: list[str] = []
    others = [
        other
        for folder in folders
        for other in _find_stores(folder, complaints)
        if _has_plan(store, other, night, planned, complaints)
    ]
    found = [each for other in others for each in _read_attempts(other, plan, complaints)]
    wanted, known = _choose(store, night, found, complaints)
    with_facts = _take_facts(store, [each for each, _ in wanted], complaints)
    for each, number in wanted:
        _take(store, each, number, has_facts=each.attempt.sha256 in with_facts)
    for other in others:
        merge_coordinator_logs(store, other, night, complaints)
    return Merged(attempts=len(wanted), known=known, complaints=tuple(complaints))


def _find_stores(folder: Path, complaints: list[str]) -> Iterator[Store]:
    """Yield the stores in a folder: the folder itself, or folders below it.

    Links are not followed. Raises ProfileError if there is none.
    """
    marked = list(_find_marked(Path(os.path.realpath(folder)), folder, _DEPTH, complaints))
    if not marked:
        raise ProfileError(
            f"--from: {folder}: it contains no store: no {MARK} in it or its folders"
        )
    for each in marked:
        yield open_store(os.path.join(os.curdir, each))  # noqa: PTH118 - "s3:x" may be its name


def _find_marked(real: Path, shown: Path, depth: int, complaints: list[str]) -> Iterator[Path]:
    try:
        with os.scandir(real) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError as error:
        raise ProfileError(f"--from: {shown}: {error.strerror or error}") from None
    for entry in entries:
        if os.path.realpath(entry.path) != entry.path:
            complaints.append(f"{shown / entry.name}: a link; links are not followed")
        elif entry.name == MARK:
            yield shown
        elif depth and entry.is_dir(follow_symlinks=False):
            yield from _find_marked(real / entry.name, shown / entry.name, depth - 1, complaints)


def _has_plan(
    store: Store, other: Store, night: str, planned: bytes, complaints: list[str]
) -> bool:
    """Return whether the other store has the night's plan. Raises StoreError for another plan."""
    theirs = other.read(plan_name(night))
    if theirs is None:
        complaints.append(f"{other.url}: no results of the night {night}")
    elif theirs != planned:
        raise StoreError(
            f"{other.url}: {plan_name(night)}: this plan differs from that of {store.url}, so that "
            "results may be for other bytes; give all jobs of a night the same plan"
        )
    return theirs is not None


def _read_attempts(other: Store, plan: NightPlan, complaints: list[str]) -> Iterator[_Found]:
    """Yield the other store's attempts at planned cells."""
    cells = {each.cell.id: each for each in plan.cells}
    for each in other.names(result_prefix(plan.night)):
        try:
            found = _read(other, each.name)
        except (RecordError, StoreError) as error:
            complaints.append(f"{error}")
            continue
        if not _is_planned(found.attempt, cells):
            message = "for a cell, a stage or bytes that are not in the plan"
            complaints.append(f"{other.url}: {each.name}: {message}")
        else:
            yield found


def _is_planned(attempt: Attempt, cells: Mapping[str, PlannedCell]) -> bool:
    planned = cells.get(attempt.cell)
    if planned is None or planned.state is not None or planned.sha256 != attempt.sha256:
        return False
    return attempt.stage == CPU or planned.cell.gpu


def _read(store: Store, name: str) -> _Found:
    attempt = read_stored_attempt(store.read(name) or b"", name, store.url)
    return _Found(
        store=store,
        name=name,
        attempt=replace(attempt, result=None),
        digest=_identify(attempt),
    )


def _identify(attempt: Attempt) -> str:
    """Return a digest that is equal for a document and its merged copy."""
    return hashlib.sha256(write_attempt(replace(attempt, number=1, facts="", log=""))).hexdigest()


def _choose(
    store: Store, night: str, found: Iterable[_Found], complaints: list[str]
) -> tuple[list[tuple[_Found, int]], int]:
    """Return the attempts to merge with their new numbers, and how many the store has already."""
    stages: dict[tuple[str, str], list[_Found]] = {}
    for each in found:
        stages.setdefault((each.attempt.cell, each.attempt.stage), []).append(each)
    kept: dict[tuple[str, str], list[str]] = {}
    for stored in store.names(result_prefix(night)):
        if about := split_attempt(stored.name):
            kept.setdefault(about[:2], []).append(stored.name)
    wanted: list[tuple[_Found, int]] = []
    known = 0
    for (cell, kind), theirs in sorted(stages.items(), key=lambda pair: pair[0]):
        stage = _Stage(store, kept.get((cell, kind), []), complaints)
        for history in _best_first(theirs, kind):
            known += stage.add(history)
        wanted += stage.new
    return wanted, known


def _best_first(found: Iterable[_Found], stage: str) -> list[list[_Found]]:
    """Return the attempts grouped by store, the store with the worst result last.

    The last conclusive attempt of a stage decides; therefore the worst result must come last.
    """
    histories: dict[str, list[_Found]] = {}
    for each in sorted(found, key=lambda one: one.attempt.number):
        histories.setdefault(each.store.url, []).append(each)
    return sorted(
        histories.values(),
        key=lambda history: (
            -rank(end_stage([each.attempt for each in history], stage).state),
            [each.digest for each in history],
        ),
    )


class _Stage:
    """One stage of a cell, with the attempts that the store has or will have."""

    def __init__(self, store: Store, names: Iterable[str], complaints: list[str]) -> None:
        self.new: list[tuple[_Found, int]] = []
        self._complaints = complaints
        self._last = 0  # number of the last attempt
        self._all: list[_Found] = []
        for name in names:
            self._last = max(self._last, (split_attempt(name) or ("", "", 0))[2])
            # an unreadable attempt is lost, but uses its number
            with contextlib.suppress(RecordError):
                self._all.append(_read(store, name))
        self._all.sort(key=lambda each: each.attempt.number)

    def add(self, history: Sequence[_Found]) -> int:
        """Add the attempts of one store; return how many of them the stage had before.

        Attempts that would hide a worse result of the stage are not added.
        """
        there = {each.digest for each in self._all}
        new = [each for each in history if each.digest not in there]
        if len(self._all) + len(new) > _MOST_ATTEMPTS:
            self._complaints.append(
                f"{history[0].store.url}: {history[0].attempt.cell}: more than {_MOST_ATTEMPTS} "
                "attempts: none are copied"
            )
            new = []
        if new and self._agrees(history, new):
            for each in new:
                self._last += 1
                numbered = replace(each.attempt, number=self._last)
                self._all.append(replace(each, attempt=numbered))
                self.new.append((each, self._last))
        return sum(each.digest in there for each in history)

    def _agrees(self, history: Sequence[_Found], new: Sequence[_Found]) -> bool:
        """Return whether the attempts may be added: they must not make the stage's result better.

        They are compared with the stage's attempts that are not in ``history``.
        """
        own = {each.digest for each in history}
        others = [each for each in self._all if each.digest not in own]
        if not others:
            return True
        stage = history[0].attempt.stage
        before, alone, after = (
            end_stage([each.attempt for each in those], stage)
            for those in (others, history, [*self._all, *new])
        )
        if is_conclusive(before.state) and is_conclusive(alone.state):
            self._compare(history[0], alone, others, before)
        return not is_conclusive(before.state) or rank(after.state) <= rank(before.state)

    def _compare(
        self, one: _Found, alone: CellEnd, others: Sequence[_Found], before: CellEnd
    ) -> None:
        """Report both stores if their results differ."""
        if alone.state is before.state:
            return
        stage = one.attempt.stage
        where = next(each for each in others if each.attempt is before.last[stage]).store.url
        counts = before if rank(alone.state) > rank(before.state) else alone
        self._complaints.append(
            f"{one.attempt.cell}: its {stage} stage is {alone.state.value} in {one.store.url} and "
            f"{before.state.value} in {where}, on the same bytes: it counts as {counts.state.value}"
        )


def _take_facts(store: Store, wanted: Iterable[_Found], complaints: list[str]) -> frozenset[str]:
    """Copy the facts of these attempts; return the SHA-256 of packages with facts in the store.

    If two folders have different facts of one package, neither document is copied.
    """
    sources: dict[str, dict[str, Store]] = {}
    for each in wanted:
        if each.attempt.facts == each.attempt.sha256:
            sources.setdefault(each.attempt.facts, {})[each.store.url] = each.store
        elif each.attempt.facts:  # nights must not get facts of another package
            complaints.append(
                f"{each.store.url}: {each.attempt.cell}: its facts are for another package"
            )
    for sha256, others in sources.items():
        _take_facts_of(store, sha256, list(others.values()), complaints)
    return frozenset(sha256 for sha256 in sources if find_facts(store, sha256) is not None)


def _take_facts_of(
    store: Store, sha256: str, others: Sequence[Store], complaints: list[str]
) -> None:
    first: dict[str, tuple[str, Store]] = {}  # by the version that wrote the document
    for each in (store, *others):
        if find_facts(each, sha256) is None:
            if each is not store:
                complaints.append(f"{each.url}: the facts of {sha256} are missing")
            continue
        try:
            version, digest = identify_facts(each, sha256)
        except RecordError as error:
            complaints.append(f"{error}")
            continue
        other = first.setdefault(version, (digest, each))
        if other[0] != digest:
            stay = "those stay" if other[1] is store else "neither document is copied"
            complaints.append(
                f"{each.url}: its facts of {sha256} differ from those in {other[1].url}: {stay}"
            )
            return
    for _, each in first.values():
        if each is not store:
            with open_facts(each, sha256) as path:
                keep_facts(store, sha256, path)


def _take(store: Store, found: _Found, number: int, *, has_facts: bool) -> None:
    """Copy one attempt.

    Its log is copied before its document: the document shows that all is stored.
    """
    attempt = read_stored_attempt(found.store.read(found.name) or b"", found.name, found.store.url)
    if _identify(attempt) != found.digest:
        raise StoreError(f"{found.store.url}: {found.name}: changed meanwhile")
    log = _read_log(found, attempt)
    kept = replace(
        attempt,
        number=number,
        facts=attempt.facts if has_facts else "",
        log=hashlib.sha256(log).hexdigest() if log is not None else "",
    )
    if log is not None:
        store.create(name_log(kept), log)
    name = result_name(kept.night, kept.cell, kept.stage, number)
    if not store.create(name, write_attempt(kept)):
        raise StoreError(f"{store.url}: {name}: another command just wrote it; run this again")


def _read_log(found: _Found, attempt: Attempt) -> bytes | None:
    """Return the log, a one-line note if it is too large, or None if there is no log."""
    name = name_log(attempt)
    try:
        return found.store.read(name, _LARGEST_LOG) if name else None
    except RecordError:
        return b"its log was not taken over: it has more than 4 MiB\n"


# Closing a night: after this mark, nothing in its folder changes.

CLOSED_SCHEMA = "binary-checks/closed/2"


@dataclass(frozen=True, kw_only=True, slots=True)
class ClosedNight:
    """The mark of a closed night."""

    night: str
    closed: str  # RFC 3339, UTC
    complaints: tuple[str, ...] = ()  # about unreadable documents, one line each


def list_waiting(plan: NightPlan, attempts: Mapping[str, Sequence[Attempt]]) -> list[str]:
    """Return cells that lack a result: nothing ran, or the GPU stage has not run yet."""
    waiting = []
    for each in plan.cells:
        made = attempts.get(each.cell.id, ())
        passed = any(one.stage == CPU and one.state in GOOD for one in made)
        ended = {one.stage for one in made}
        if each.state is None and (not made or (each.cell.gpu and passed and GPU not in ended)):
            waiting.append(each.cell.id)
    return waiting


def close_night(store: Store, ended: ClosedNight) -> ClosedNight:
    """Close a night and return its mark; if several processes do so, the first mark stays."""
    content = write_document({"schema": CLOSED_SCHEMA, **encode_fields(ended)})
    store.create(closed_name(ended.night), content)
    return read_closed(store, ended.night) or ended


def read_closed(store: Store, night: str) -> ClosedNight | None:
    """Return the mark of a closed night, or None if it is open. Raises RecordError."""
    content = store.read(closed_name(night))
    if content is None:
        return None
    try:
        row = open_document(content, CLOSED_SCHEMA)
        return ClosedNight(**decode_fields(ClosedNight, row))
    except DocumentError as error:
        raise RecordError(f"{store.url}: {closed_name(night)}: {error}") from None
