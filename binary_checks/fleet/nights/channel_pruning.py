"""Reads what the retention of a channel is decided on, and deletes what may go, in order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from binary_checks.errors import ProfileError, PruneRefusedError, StoreError
from binary_checks.fleet.artifacts.channel_index import is_indexed, write_index
from binary_checks.fleet.artifacts.channel_members import (
    demand_channel,
    list_channels,
    list_members,
)
from binary_checks.fleet.artifacts.kept_artifacts import list_artifacts
from binary_checks.fleet.nights.channel_retention import ChannelRetention, RepositoryHistory
from binary_checks.fleet.nights.night_retention import Deletion
from binary_checks.fleet.nights.pruning import read_referred
from binary_checks.fleet.store import Store, ask_at_once
from binary_checks.fleet.store.store_names import FACTS, PACKAGES, expired_name


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelPruned:
    """What was done."""

    deleted: int  # objects
    refilled: tuple[str, ...] = ()  # names of members that joined while their bytes went


def read_history(store: Store, channel: str, now: datetime | None = None) -> RepositoryHistory:
    """Read all that the decision depends on.

    Raises ProfileError for a channel that there is not, and PruneRefusedError where anything
    cannot be read: what is not known to be superfluous is not.
    """
    demand_channel(channel)
    try:
        known = list_channels(store)
        if channel not in known:
            raise ProfileError(
                f"{store.url}: no channel {channel} (known: {', '.join(known) or 'none'})"
            )
        members = tuple(list_members(store))
        digests = dict.fromkeys(each.sha256 for each in members if each.channel == channel)
        return RepositoryHistory(
            members=members,
            artifacts={each.sha256: each for each in list_artifacts(store, digests)},
            packages=tuple(store.names(PACKAGES)),
            facts=tuple(store.names(FACTS)),
            referred=read_referred(store),
            now=now or datetime.now(timezone.utc),
        )
    except StoreError as error:
        raise PruneRefusedError(f"nothing is deleted: {error}") from None


def prune_channel(
    store: Store, channel: str, retention: ChannelRetention, history: RepositoryHistory
) -> ChannelPruned:
    """Delete what may go. Whatever ends it, running it again goes on.

    Raises PruneRefusedError where a channel changed since the history was read, and StoreError
    where a deletion fails.
    """
    known = {each.stored.name: each.sha256 for each in history.members}
    going = {each.rpartition("/")[0].rpartition("/")[2] for each in _name_marks(retention)}
    _demand_unchanged(store, known)
    for _ in ask_at_once(lambda name: store.create(name, b""), _name_marks(retention)):
        pass
    done = _delete(store, retention.members)
    if retention.members and is_indexed(store, channel):
        write_index(store, channel)
    for step in retention.packages:
        if step:
            _demand_unchanged(store, known)
            done += _delete(store, step)
    joined = {each.stored.name: each.sha256 for each in list_members(store)}
    lost = sorted(name for name, sha256 in joined.items() if sha256 in going)
    return ChannelPruned(deleted=done, refilled=tuple(lost))


def _name_marks(retention: ChannelRetention) -> list[str]:
    return [expired_name(each) for each in retention.marked]


def _delete(store: Store, deletions: tuple[Deletion, ...]) -> int:
    return sum(1 for _ in ask_at_once(store.delete, [each.stored.name for each in deletions]))


def _demand_unchanged(store: Store, known: dict[str, str]) -> None:
    try:
        joined = {each.stored.name: each.sha256 for each in list_members(store)}
    except StoreError as error:
        raise PruneRefusedError(f"nothing more is deleted: {error}") from None
    if not joined.items() <= known.items():
        said = "a channel changed meanwhile: nothing more is deleted; run it again"
        raise PruneRefusedError(f"{store.url}: {said}")
