"""Merge the results of other stores, such as folders that CI jobs uploaded, into a night.

A CI job that has no credentials for the store runs its cells in a copy of the folder in which the
night was planned, and uploads that copy. The job may come from a fork, so that only results of
cells in the store's own plan are merged, with their logs and facts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from binary_checks.documents.json_values import DocumentError, decode_fields, encode_fields
from binary_checks.errors import ProfileError, RecordError, StoreError
from binary_checks.fleet.night import (
    CONCLUSIVE,
    CPU,
    Attempt,
    CellEnd,
    NightPlan,
    PlannedCell,
    end_stage,
    final_state,
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
    name_log,
    open_document,
    read_stored_attempt,
    require_plan,
    write_attempt,
    write_document,
)

_DEPTH = 2  # levels of folders to search for stores: a folder for each artifact, and folders in it
_MOST_ATTEMPTS = 100  # at one stage of a cell; a night makes three, and each job may make its own
# bytes; an attempt keeps 1 MiB of its output's beginning and 1 MiB of its end
_LARGEST_LOG = 4 << 20
_Result = tuple[Store, str]  # a store, and the name of an attempt's document in it


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
    attempt: Attempt  # without its result: a hundred of them could fill the memory
    digest: str  # equal for equal attempts, whatever their numbers and wherever their facts are


def merge_night(store: Store, night: str, folders: Sequence[Path]) -> Merged:
    """Copy results of the night, with logs and facts, from stores in the folders into the store.

    The logs of the jobs' coordinators are copied, too.

    The order of the folders does not matter. If folders disagree about a cell, the worse result
    counts, and a line names both. Merging twice is the same as merging once.

    Raises ProfileError if a folder contains no store, and StoreError if the store has no plan of
    that night, or a folder has another plan of it, whose results may be of other bytes. Nothing is
    merged then.
    """
    plan, complaints = require_plan(store, night), list[str]()
    others = [
        other
        for folder in folders
        for other in _find_stores(folder, complaints)
        if _has_plan(store, other, night, complaints)
    ]
    for sha256 in sorted({each.sha256 for each in plan.cells} - {""}):
        _merge_facts(store, others, sha256, complaints)
    cells = {each.cell.id: each for each in plan.cells}
    ours = _list_results([store], night)
    attempts = known = 0
    for stage, named in sorted(_list_results(others, night).items()):
        if len(named) > _MOST_ATTEMPTS:
            complaints.append(f"{stage[0]}: more than {_MOST_ATTEMPTS} attempts: none are copied")
            continue
        theirs = _read_planned(named, cells, complaints)
        new, old = _merge_stage(store, ours.get(stage, ()), theirs, complaints)
        attempts, known = attempts + new, known + old
    for other in others:
        merge_coordinator_logs(store, other, night, complaints)
    return Merged(attempts=attempts, known=known, complaints=tuple(complaints))


def _find_stores(folder: Path, complaints: list[str]) -> Iterator[Store]:
    """Yield the stores in a folder: the folder itself, or folders below it.

    Links are not followed. Raises ProfileError if there is none.
    """
    top, found, refused = Path(os.path.realpath(folder)), False, list[OSError]()
    for path, folders, files in os.walk(top, onerror=refused.append):
        here = Path(path)
        shown = folder / here.relative_to(top)
        links = [each for each in (*folders, *files) if here / each != (here / each).resolve()]
        complaints += [f"{shown / each}: a link; links are not followed" for each in sorted(links)]
        below = len(here.relative_to(top).parts) < _DEPTH
        folders[:] = sorted(set(folders) - set(links)) if below else []
        if MARK in files and MARK not in links:
            folders.clear()
            found = True
            yield open_store(os.path.join(os.curdir, shown))  # noqa: PTH118 - "s3:x" may be its name
    complaints += map(str, refused)
    if not found:
        raise ProfileError(
            f"--from: {folder}: it contains no store: no {MARK} in it or its folders"
        )


def _has_plan(store: Store, other: Store, night: str, complaints: list[str]) -> bool:
    """Return whether the other store has the night's plan. Raises StoreError for another plan."""
    theirs = other.read(plan_name(night))
    if theirs is None:
        complaints.append(f"{other.url}: no results of the night {night}")
    elif theirs != store.read(plan_name(night)):
        raise StoreError(
            f"{other.url}: {plan_name(night)}: this plan differs from that of {store.url}, so that "
            "results may be for other bytes; give all jobs of a night the same plan"
        )
    return theirs is not None


def _list_results(stores: Sequence[Store], night: str) -> dict[tuple[str, str], list[_Result]]:
    """Return the results in these stores by cell and stage."""
    found: dict[tuple[str, str], list[_Result]] = {}
    for store in stores:
        for stored in store.names(result_prefix(night)):
            cell, stage, _ = split_attempt(stored.name) or ("", "", 0)
            found.setdefault((cell, stage), []).append((store, stored.name))
    return found


def _read_attempts(
    named: Sequence[_Result], complaints: list[str], *, own: bool = False
) -> Iterator[_Found]:
    """Yield the attempts that can be read; the others add a line to ``complaints``.

    With ``own``, for the store into which attempts are copied, a failure of the store is raised: an
    attempt that was passed over could be the worse result that must not be hidden.
    """
    for store, name in named:
        try:
            attempt = read_stored_attempt(store.read(name) or b"", name, store.url)
        except RecordError as error:
            complaints.append(str(error))
            continue
        except StoreError as error:
            if own:
                raise
            complaints.append(str(error))
            continue
        light, digest = replace(attempt, result=None), _identify(attempt)
        yield _Found(store=store, name=name, attempt=light, digest=digest)


def _identify(attempt: Attempt) -> str:
    """Return a digest that is equal for a document and its merged copy."""
    return hashlib.sha256(write_attempt(replace(attempt, number=1, facts="", log=""))).hexdigest()


def _read_planned(
    named: Sequence[_Result], cells: Mapping[str, PlannedCell], complaints: list[str]
) -> Iterator[_Found]:
    """Yield the attempts that the plan asks for."""
    for each in _read_attempts(named, complaints):
        attempt = each.attempt
        planned = cells.get(attempt.cell)
        runs = planned is not None and planned.state is None and planned.sha256 == attempt.sha256
        if planned is not None and runs and (attempt.stage == CPU or planned.cell.gpu):
            yield each
        else:
            message = "for a cell, a stage or bytes that are not in the plan"
            complaints.append(f"{each.store.url}: {each.name}: {message}")


# One stage of a cell: which attempts of other stores it gets.


def _merge_stage(
    store: Store, ours: Sequence[_Result], theirs: Iterator[_Found], complaints: list[str]
) -> tuple[int, int]:
    """Copy attempts of other stores; return how many, and how many the stage had before.

    The last conclusive attempt of a stage decides. The attempts of each store are therefore copied
    together, those of the store with the worst result last, and none that would hide a worse
    result.
    """
    # an unreadable attempt is lost, but uses its number
    last = max(((split_attempt(name) or ("", "", 0))[2] for _, name in ours), default=0)
    there = sorted(_read_attempts(ours, [], own=True), key=lambda each: each.attempt.number)
    copied = known = 0
    for history in _best_first(theirs):
        present = {each.digest for each in there}
        # the folders may contain one store twice
        unlike = {each.digest: each for each in reversed(history) if each.digest not in present}
        new = sorted(unlike.values(), key=lambda each: each.attempt.number)
        known += len(history) - len(new)
        if new and _may_follow(there, history, new, complaints):
            for number, each in enumerate(new, last + 1):
                _copy(store, each, number, complaints)
            there += new
            last, copied = last + len(new), copied + len(new)
    return copied, known


def _best_first(found: Iterator[_Found]) -> list[list[_Found]]:
    """Return the attempts grouped by store, the store with the worst result last."""
    histories: dict[str, list[_Found]] = {}
    for each in sorted(found, key=lambda one: one.attempt.number):
        histories.setdefault(each.store.url, []).append(each)
    return sorted(
        histories.values(),
        key=lambda history: (-rank(_end(history).state), [each.digest for each in history]),
    )


def _end(found: Sequence[_Found]) -> CellEnd:
    return end_stage([each.attempt for each in found], found[0].attempt.stage)


def _may_follow(
    there: Sequence[_Found],
    history: Sequence[_Found],
    new: Sequence[_Found],
    complaints: list[str],
) -> bool:
    """Return whether the new attempts of a store may follow the stage's attempts.

    They must not make a result better that others have found. If both differ, report it.
    """
    first = history[0]
    own = {each.digest for each in history}
    others = [each for each in there if each.digest not in own]
    if not others or _end(others).state not in CONCLUSIVE:
        return True
    before, alone, after = (_end(those) for those in (others, history, [*there, *new]))
    if alone.state in CONCLUSIVE and alone.state is not before.state:
        (decides,) = before.last.values()
        where = next(each for each in others if each.attempt is decides).store.url
        worse = min(before.state, alone.state, key=rank)
        complaints.append(
            f"{first.attempt.cell}: its {first.attempt.stage} stage is {alone.state.value} in "
            f"{first.store.url} and {before.state.value} in {where}, on the same bytes: it counts "
            f"as {worse.value}"
        )
    return rank(after.state) <= rank(before.state)


def _copy(store: Store, found: _Found, number: int, complaints: list[str]) -> None:
    """Copy one attempt.

    Its log is copied before its document: the document shows that all is stored.
    """
    attempt = read_stored_attempt(found.store.read(found.name) or b"", found.name, found.store.url)
    if _identify(attempt) != found.digest:
        raise StoreError(f"{found.store.url}: {found.name}: changed meanwhile")
    log = _read_log(found)
    kept = replace(
        attempt,
        number=number,
        facts=_choose_facts(store, found, complaints),
        log=hashlib.sha256(log).hexdigest() if log is not None else "",
    )
    if log is not None:
        store.create(name_log(kept), log)
    name = result_name(kept.night, kept.cell, kept.stage, number)
    if not store.create(name, write_attempt(kept)):
        raise StoreError(f"{store.url}: {name}: another command just wrote it; run this again")


def _read_log(found: _Found) -> bytes | None:
    """Return the log, a one-line note if it is too large, or None if there is no log."""
    name = name_log(found.attempt)
    try:
        return found.store.read(name, _LARGEST_LOG) if name else None
    except RecordError:
        return b"its log was not taken over: it has more than 4 MiB\n"


# Facts of packages.


def _merge_facts(store: Store, others: Sequence[Store], sha256: str, complaints: list[str]) -> None:
    """Copy the facts of a package. If stores have different ones, neither document is copied."""
    holders = [each for each in others if find_facts(each, sha256) is not None]
    if holders and find_facts(store, sha256) is not None:
        holders.insert(0, store)
    found: dict[str, dict[str, Store]] = {}  # version that wrote the document -> SHA-256 -> store
    for each in holders:
        try:
            version, digest = identify_facts(each, sha256)
        except RecordError as error:
            complaints.append(f"{error}")
            continue
        found.setdefault(version, {}).setdefault(digest, each)
    for documents in found.values():
        first, *further = documents.values()
        stay = "those stay" if first is store else "neither document is copied"
        differ = f"differ from those in {first.url}: {stay}"
        complaints += [f"{each.url}: its facts of {sha256} {differ}" for each in further]
        if not further and first is not store:
            with open_facts(first, sha256) as path:
                keep_facts(store, sha256, path)


def _choose_facts(store: Store, found: _Found, complaints: list[str]) -> str:
    """Return the SHA-256 under which the store has the facts of an attempt, or ""."""
    sha256, named = found.attempt.facts, f"{found.store.url}: {found.attempt.cell}"
    if sha256 and sha256 != found.attempt.sha256:  # nights must not get facts of another package
        complaints.append(f"{named}: its facts are for another package")
        return ""
    if not sha256 or find_facts(store, sha256) is not None:
        return sha256
    if find_facts(found.store, sha256) is None:
        complaints.append(f"{named}: the facts of {sha256} are missing")
    return ""


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
    cells = [each.cell.id for each in plan.cells]
    ends = (final_state(each, attempts.get(each.cell.id, ())) for each in plan.cells)
    return [cell for cell, end in zip(cells, ends, strict=True) if end.waits]


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
