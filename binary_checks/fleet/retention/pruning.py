"""Read the history for retention's decision, and delete without leaving dangling references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from binary_checks.errors import ProfileError, RecordError, StoreError
from binary_checks.fleet.artifacts import (
    is_indexed,
    list_artifacts,
    list_channels,
    list_members,
    require_channel,
    write_index,
)
from binary_checks.fleet.retention.rules import (
    PastCell,
    PruneRefusedError,
    Retention,
    StoreHistory,
    digest_of,
)
from binary_checks.fleet.store import (
    ATTEMPT_FOLDERS,
    FACTS,
    FILES,
    PACKAGES,
    Store,
    Stored,
    ask_at_once,
    expired_name,
    night_folder,
    result_prefix,
)
from binary_checks.fleet.stored_nights import closed_nights, list_nights, read_attempt, require_plan
from binary_checks.fleet.tables.views import open_tables
from binary_checks.model import CellState


def read_history(store: Store, channel: str = "") -> StoreHistory:
    """Read the history on which the pruning of nights, or of a channel, depends.

    Raises ProfileError for an unknown channel, and PruneRefusedError if anything cannot be read, or
    tonight's listing failed: an object is deleted only if it is known to be superfluous.
    """
    if channel:
        require_channel(channel)
    try:
        nights = list_nights(store)
        if channel:
            _require_member(store, channel)
        else:
            _require_listing(store, nights)
        closed = closed_nights(store)
        members = tuple(list_members(store))
        digests = dict.fromkeys(each.sha256 for each in members if each.channel == channel)
        return StoreHistory(
            nights=tuple(nights),
            past=_read_past(store) if closed else (),
            held={each: _read_held(store, each) for each in nights if each not in closed},
            members=members,
            artifacts={each.sha256: each for each in list_artifacts(store, digests)},
            attempts=() if channel else tuple(_list_attempts(store, closed)),
            facts=tuple(store.names(FACTS)),
            packages=(*store.names(FILES), *store.names(PACKAGES)),
        )
    except StoreError as error:
        raise PruneRefusedError(f"nothing is deleted: {error}") from None


def carry_out(store: Store, retention: Retention, history: StoreHistory) -> list[str]:
    """Carry out the deletions. After an interruption, another call continues them.

    Return the names of members that joined while their bytes were deleted. Raises PruneRefusedError
    if a night began or a channel changed since the history was read, or if that is unknown, and
    StoreError if a deletion fails.
    """
    if retention.marked:
        _require_unchanged(store, history)
        marks = map(expired_name, retention.marked)
        for _ in ask_at_once(lambda name: store.create(name, b""), marks):
            pass
    for _, objects in retention.steps:
        if objects:
            _require_unchanged(store, history)
            names = dict.fromkeys(each.name for each in objects)
            for _ in ask_at_once(store.delete, names):
                pass
            # no index may link to an object that is deleted next
            for channel in sorted({m.channel for m in history.members if m.stored.name in names}):
                if is_indexed(store, channel):
                    write_index(store, channel)
    gone = {digest_of(each.name) for each in retention.deletions} - {""}
    joined = list_members(store) if gone else ()
    return sorted(each.stored.name for each in joined if each.sha256 in gone)


def _require_member(store: Store, channel: str) -> None:
    known = list_channels(store)
    if channel not in known:
        raise ProfileError(
            f"{store.url}: no channel {channel} (known: {', '.join(known) or 'none'})"
        )


def _require_listing(store: Store, nights: Sequence[str]) -> None:
    """Raise PruneRefusedError if tonight's listing of published packages is incomplete."""
    if not nights:
        message = "it has no night; `binary-checks artifact prune` is for channels"
        raise PruneRefusedError(f"{store.url}: nothing is deleted: {message}")
    plan = require_plan(store, nights[-1])
    if not any(each.sha256 for each in plan.cells):
        raise PruneRefusedError(f"{plan.night}: nothing is deleted: its plan contains no package")
    for each in plan.cells:
        if each.state is CellState.INFRA:
            raise PruneRefusedError(
                f"{plan.night}: nothing is deleted: the listing of {each.cell.id} failed: "
                f"{each.reason}"
            )


def _read_past(store: Store) -> tuple[PastCell, ...]:
    with open_tables(store, tables=["cells"]) as connection:
        rows = connection.execute(
            "SELECT cell, strftime(night, '%Y-%m-%d'), state, sha256, facts FROM cells"
        ).fetchall()
    if any(None in row for row in rows):
        raise RecordError(f"{store.url}: cells: a row without a night, a cell or a state")
    try:
        return tuple(
            PastCell(cell=cell, night=night, state=CellState(state), sha256=sha256, facts=facts)
            for cell, night, state, sha256, facts in rows
        )
    except ValueError:
        raise RecordError(f"{store.url}: cells: a state that only a newer version knows") from None


def _read_held(store: Store, night: str) -> frozenset[str]:
    """Return the SHA-256 of everything to which a night refers; the night may still run."""
    found = {each.sha256 for each in require_plan(store, night).cells}
    names = [stored.name for stored in store.names(result_prefix(night))]
    for name, content in zip(names, ask_at_once(store.read, names), strict=True):
        if content is not None:
            attempt = read_attempt(content, f"{store.url}: {name}")
            found |= {attempt.sha256, attempt.facts}
    return frozenset(found - {""})


def _list_attempts(store: Store, closed: Sequence[str]) -> Iterator[Stored]:
    folders = [f"{night_folder(night)}{folder}/" for night in closed for folder in ATTEMPT_FOLDERS]
    return chain.from_iterable(ask_at_once(lambda folder: list(store.names(folder)), folders))


def _require_unchanged(store: Store, history: StoreHistory) -> None:
    members = {(each.stored.name, each.sha256) for each in history.members}
    try:
        there = {(each.stored.name, each.sha256) for each in list_members(store)}
        nights = set(list_nights(store))
    except StoreError as error:
        raise PruneRefusedError(f"nothing more is deleted: {error}") from None
    if not there <= members or not nights <= set(history.nights):
        raise PruneRefusedError(
            f"{store.url}: a night began, or a channel changed, meanwhile: nothing more is deleted;"
            " run it again"
        )
