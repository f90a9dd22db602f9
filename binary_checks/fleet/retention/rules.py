"""Decide what a store keeps of its nights and channels, and what may be deleted."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from packaging.version import Version

from binary_checks.errors import BinaryChecksError
from binary_checks.fleet.artifacts import (
    Artifact,
    ChannelMember,
    Selection,
    parse_upload_time,
)
from binary_checks.fleet.night import GOOD
from binary_checks.fleet.store import (
    FACTS,
    NIGHT,
    PACKAGES,
    RESULTS,
    Stored,
    expired_name,
    split_artifact,
    split_attempt,
    split_file,
    split_origin,
)
from binary_checks.model import CellState

_ABOUT_PACKAGE = re.compile(rf"(?:{FACTS}|{PACKAGES})[0-9a-f]{{2}}/([0-9a-f]{{64}})[./].+")
_OLDEST = Version("0.dev0")
_UNUSED = "no channel contains it, and no night that is kept refers to it"
Entry = tuple[str, str]
"""A cell and a night in which it was planned, or a channel and the name of a member."""


class PruneRefusedError(BinaryChecksError):
    """Retention deletes nothing because it lacks information; the text says what is missing."""


_ALL = Selection()


@dataclass(frozen=True, kw_only=True, slots=True)
class PastCell:
    """The end of a closed night for one cell."""

    cell: str
    night: str
    state: CellState
    sha256: str = ""  # of its package; "" if there was none
    facts: str = ""  # SHA-256 under which its facts are stored

    @property
    def digests(self) -> frozenset[str]:
        """The SHA-256 of the package and the facts, if there are any."""
        return frozenset({self.sha256, self.facts}) - {""}


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreHistory:
    """The state of a store, on which the decision depends."""

    nights: tuple[str, ...] = ()
    past: tuple[PastCell, ...] = ()  # of closed nights
    held: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Open night -> SHA-256 of everything that it refers to."""
    members: tuple[ChannelMember, ...] = ()
    artifacts: Mapping[str, Artifact] = field(default_factory=dict)
    """SHA-256 -> artifact, for all members of the requested channel."""
    attempts: tuple[Stored, ...] = ()  # results and logs of closed nights
    facts: tuple[Stored, ...] = ()
    packages: tuple[Stored, ...] = ()

    @property
    def origins(self) -> list[tuple[str, str]]:
        """The SHA-256 of each file that is made of another one, and that of the other."""
        return [found for each in self.packages if (found := split_origin(each.name))]

    @property
    def known(self) -> frozenset[str]:
        """The SHA-256 of everything that a closed night refers to."""
        return frozenset[str]().union(*(each.digests for each in self.past))

    @property
    def marked(self) -> frozenset[str]:
        """The SHA-256 of packages that an earlier run has marked, and not deleted completely."""
        return frozenset(digest_of(each.name) for each in self.packages if _is_mark(each.name))


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """A decision: what is kept, with the reasons, and steps of deletions, in order.

    An object is deleted before the objects that it refers to, so that no reference dangles.
    """

    kept: Mapping[Entry, tuple[str, ...]]
    steps: tuple[tuple[str, tuple[Stored, ...]], ...]  # (reason, objects)
    marked: tuple[str, ...] = ()  # SHA-256 of packages that are marked before the first step

    @property
    def deletions(self) -> list[Stored]:
        """All objects to be deleted, in order."""
        return [each for _, objects in self.steps for each in objects]


# Nights


def retain(
    history: StoreHistory, *, keep: int = 5, expiring: frozenset[str] = frozenset()
) -> Retention:
    """Keep the last nights of each cell, its last pass, and all that a channel contains.

    Packages may be deleted if only ``expiring`` channels contain them. Raises PruneRefusedError if
    a cell would lose its last good package.
    """
    holding = {
        each.sha256: each.channel for each in history.members if each.channel not in expiring
    }
    for made, origin in history.origins:
        if made in holding:
            holding.setdefault(origin, holding[made])
    kept = _keep_nights(history, keep, holding)
    of_kept = (each.digests for each in history.past if (each.cell, each.night) in kept)
    wanted = frozenset(holding).union(*of_kept, *history.held.values())
    # A package that no night has used may have been pushed just now.
    stray = {digest_of(each.name) for each in history.facts}
    stray -= {digest_of(each.name) for each in history.packages} | {""}
    superfluous = (history.known | stray) - wanted
    gone = {(each.cell, each.night) for each in history.past} - kept.keys()
    attempts = [each for each in history.attempts if _entry_of(each.name) in gone]
    members = (each.stored for each in history.members if each.sha256 in superfluous)
    why = "neither one of the last nights nor the last night that passed"
    steps = (
        (why, tuple(each for each in attempts if f"/{RESULTS}/" in each.name)),
        (why, tuple(each for each in attempts if f"/{RESULTS}/" not in each.name)),
        ("no night that is kept refers to its package", tuple(members)),
        *_list_packages((*history.facts, *history.packages), superfluous),
    )
    retention = Retention(kept=kept, steps=steps)
    _require_last_good(history, retention)
    return retention


def _keep_nights(
    history: StoreHistory, keep: int, holding: Mapping[str, str]
) -> dict[Entry, tuple[str, ...]]:
    kept: dict[Entry, tuple[str, ...]] = defaultdict(tuple)
    for cell, newest_first in _by_cell(history).items():
        for each in newest_first[:keep]:
            kept[cell, each.night] += (f"of the last {keep}",)
        for each in _find_good(newest_first):
            kept[cell, each.night] += ("the last night that passed",)
        latest = {each.sha256: each for each in reversed(newest_first)}
        for sha256 in latest.keys() & holding.keys():
            kept[cell, latest[sha256].night] += (f"in the channel {holding[sha256]}",)
    return dict(kept)


def _by_cell(history: StoreHistory) -> dict[str, list[PastCell]]:
    found: dict[str, list[PastCell]] = {}
    for each in sorted(history.past, key=lambda each: each.night, reverse=True):
        found.setdefault(each.cell, []).append(each)
    return found


def _find_good(newest_first: Sequence[PastCell]) -> list[PastCell]:
    """Return the last night in which the cell passed, or nothing."""
    return [each for each in newest_first if each.state in GOOD][:1]


def _entry_of(name: str) -> Entry | None:
    """Return the cell and the night of a result or a log, or None for other objects."""
    night, attempt = NIGHT.match(name), split_attempt(name)
    return (attempt[0], night[1]) if night and attempt else None


def _require_last_good(history: StoreHistory, retention: Retention) -> None:
    """Raise PruneRefusedError if a cell would lose the package that last worked."""
    gone = {digest_of(each.name) for each in retention.deletions}
    entries = {_entry_of(each.name) for each in retention.deletions}
    for cell, newest_first in _by_cell(history).items():
        for good in _find_good(newest_first):
            if good.digests & gone or (cell, good.night) in entries:
                raise PruneRefusedError(
                    f"{cell}: it would lose its last good package, from {good.night}"
                )


# Channels


def expire(  # noqa: PLR0913
    history: StoreHistory,
    channel: str,
    now: datetime,
    *,
    keep: int = 5,
    days: int = 0,
    selection: Selection = _ALL,
) -> Retention:
    """Remove older members from a channel, and packages that nothing refers to afterwards.

    Members that the selection does not match all stay.

    The channel keeps the newest ``keep`` of each configuration of a project, and those that were
    pushed within so many days. A package is deleted if it was in the channel, or if an earlier run
    marked it. It is kept if another member or a night refers to it. A package that was never in a
    channel is kept, too.
    """
    chosen = [each for each in history.members if each.channel == channel]
    matching = {sha256 for sha256, each in history.artifacts.items() if not selection.unmet(each)}
    reasons = [(each, "not selected by --where") for each in chosen if each.sha256 not in matching]
    selected = [each for each in chosen if each.sha256 in matching]
    reasons += _keep_members(history, selected, keep, now - timedelta(days=days))
    kept = {(channel, member.stored.name): (why,) for member, why in reasons}
    going = {each.stored: each.sha256 for each in chosen if (channel, each.stored.name) not in kept}
    held = {each.sha256 for each in history.members if each.stored not in going}
    held |= {origin for made, origin in history.origins if made in held}
    gone = history.marked.union(going.values())
    superfluous = gone - history.known.union(held, *history.held.values())
    unmarked = sorted(superfluous - history.marked)
    marks = [Stored(name=expired_name(each), size=0) for each in unmarked]
    why = f"not among the newest {keep} of its configuration" + (
        f" nor pushed in the last {days} days" if days else ""
    )
    steps = (
        (why, tuple(going)),
        *_list_packages((*history.facts, *history.packages, *marks), superfluous),
    )
    return Retention(kept=kept, steps=steps, marked=tuple(unmarked))


def _keep_members(
    history: StoreHistory, chosen: Iterable[ChannelMember], keep: int, since: datetime
) -> Iterator[tuple[ChannelMember, str]]:
    """Yield the members that stay, with the reason."""
    groups: dict[tuple[str, ...], list[tuple[ChannelMember, Artifact]]] = defaultdict(list)
    for member in chosen:
        artifact = history.artifacts[member.sha256]
        groups[artifact.configuration].append((member, artifact))
    for members in groups.values():
        newest_first = sorted(members, key=lambda pair: _age(pair[1]), reverse=True)
        for place, (member, artifact) in enumerate(newest_first):
            pushed = parse_upload_time(artifact.pushed)
            if place < keep:
                yield member, f"of the last {keep}"
            elif pushed is None:
                yield member, "the time of its push is unknown"
            elif pushed > since:
                yield member, f"pushed since {since:%Y-%m-%d}"


def _age(artifact: Artifact) -> tuple[Version, str, str]:
    try:
        version = Version(artifact.version)
    except ValueError:  # InvalidVersion, or too many digits
        version = _OLDEST
    moment = parse_upload_time(artifact.pushed)
    return version, moment.isoformat() if moment else "", artifact.file_name


# Packages, whose objects both decisions delete in the same order


def _list_packages(
    objects: Iterable[Stored], superfluous: frozenset[str]
) -> Iterator[tuple[str, tuple[Stored, ...]]]:
    """Yield the steps: delete facts, documents, the objects next to them, and last the marks."""
    found = [each for each in objects if digest_of(each.name) in superfluous]
    for rank in range(4):
        yield _UNUSED, tuple(each for each in found if _rank(each.name) == rank)


def _rank(name: str) -> int:
    if name.startswith(FACTS):
        return 0
    if split_artifact(name):
        return 1
    return 3 if _is_mark(name) else 2


def _is_mark(name: str) -> bool:
    return name == expired_name(digest_of(name))


def digest_of(name: str) -> str:
    """Return the SHA-256 of the package that an object belongs to or is about; "" for others."""
    found = _ABOUT_PACKAGE.fullmatch(name)
    return found[1] if found else split_file(name) or ""
