"""Decide what a store keeps of its nights and channels, and what may be deleted."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from packaging.version import Version

from binary_checks.errors import PruneRefusedError
from binary_checks.fleet.artifacts import FILE_AXES, Artifact, ChannelMember, parse_upload_time
from binary_checks.fleet.night import GOOD
from binary_checks.fleet.store import (
    ATTEMPT_FOLDERS,
    FACTS,
    NIGHT,
    PACKAGES,
    RESULTS,
    Stored,
    expired_name,
    split_artifact,
    split_attempt,
    split_origin,
)
from binary_checks.model import CellState

_OF_NIGHT = re.compile(rf"{NIGHT.pattern}({'|'.join(ATTEMPT_FOLDERS)})/[^/]+")
_FACTS = re.compile(rf"{FACTS}[0-9a-f]{{2}}/([0-9a-f]{{64}})\.[^/]+")
_PACKAGE = re.compile(rf"{PACKAGES}[0-9a-f]{{2}}/([0-9a-f]{{64}})/.+")
_OLDEST = Version("0.dev0")
_Kept = TypeVar("_Kept")
Entry = tuple[str, str]
"""A cell, and a night in which it was planned."""


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

    past: tuple[PastCell, ...] = ()  # of closed nights
    held: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Open night -> SHA-256 of everything that it refers to."""
    members: tuple[ChannelMember, ...] = ()
    artifacts: Mapping[str, Artifact] = field(default_factory=dict)
    """SHA-256 -> artifact, for the members of the requested channel."""
    attempts: tuple[Stored, ...] = ()  # results and logs of closed nights
    facts: tuple[Stored, ...] = ()
    packages: tuple[Stored, ...] = ()

    @property
    def origins(self) -> list[tuple[str, str]]:
        """The SHA-256 of each file that is made of another one, and that of the other."""
        return [found for each in self.packages if (found := split_origin(each.name))]

    @property
    def referred(self) -> frozenset[str]:
        """The SHA-256 of everything that any night refers to."""
        past = (each.digests for each in self.past)
        return frozenset[str]().union(*past, *self.held.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Deletion:
    """One object that may be deleted."""

    stored: Stored
    reason: str


@dataclass(frozen=True, kw_only=True)
class Retention(Generic[_Kept]):
    """A decision: what is kept, with the reasons, and steps of deletions, in order.

    An object is deleted before the objects that it refers to, so that no reference dangles.
    """

    kept: Mapping[_Kept, tuple[str, ...]]  # nights of cells, or names of a channel's members
    steps: tuple[tuple[Deletion, ...], ...]
    marked: tuple[str, ...] = ()  # SHA-256 of packages that are marked before the first step

    @property
    def deletions(self) -> list[Deletion]:
        """All deletions, in order."""
        return [each for step in self.steps for each in step]


# Nights


def retain(
    history: StoreHistory, *, keep: int = 5, expiring: frozenset[str] = frozenset()
) -> Retention[Entry]:
    """Keep the last nights of each cell, its last pass, and all that a channel contains.

    Packages may be deleted if only ``expiring`` channels contain them. Raises PruneRefusedError if
    a cell would lose its last good package.
    """
    holding = {
        each.sha256: each.channel for each in history.members if each.channel not in expiring
    }
    holding |= {
        origin: holding[made]
        for made, origin in history.origins
        if made in holding and origin not in holding
    }
    kept = {entry: tuple(why) for entry, why in _keep_nights(history, keep, holding).items()}
    retention = Retention(kept=kept, steps=_list_steps(history, kept, frozenset(holding)))
    _require_last_good(history, retention)
    return retention


def _keep_nights(
    history: StoreHistory, keep: int, holding: Mapping[str, str]
) -> dict[Entry, list[str]]:
    kept: dict[Entry, list[str]] = {}
    for cell, newest_first in _by_cell(history).items():
        for each in newest_first[:keep]:
            kept.setdefault((cell, each.night), []).append(f"of the last {keep}")
        good = next((each for each in newest_first if each.state in GOOD), None)
        if good is not None:
            kept.setdefault((cell, good.night), []).append("the last night that passed")
        seen = set[str]()
        for each in newest_first:
            if each.sha256 in holding and each.sha256 not in seen:
                seen.add(each.sha256)
                why = f"in the channel {holding[each.sha256]}"
                kept.setdefault((cell, each.night), []).append(why)
    return kept


def _by_cell(history: StoreHistory) -> dict[str, list[PastCell]]:
    found: dict[str, list[PastCell]] = {}
    for each in sorted(history.past, key=lambda each: each.night, reverse=True):
        found.setdefault(each.cell, []).append(each)
    return found


def _list_steps(
    history: StoreHistory, kept: Mapping[Entry, object], holding: frozenset[str]
) -> tuple[tuple[Deletion, ...], ...]:
    known = {digest for each in history.past for digest in each.digests}
    of_nights = {
        d for each in history.past if (each.cell, each.night) in kept for d in each.digests
    }
    wanted = of_nights.union(holding, *history.held.values())
    # A package that no night has used may have been pushed just now.
    superfluous = known - wanted - {""}
    packages = [each for each in history.packages if digest_of(each) in superfluous]
    gone = {digest_of(each) for each in packages}
    there = {digest_of(each) for each in history.packages} - gone
    referred = wanted | there | {""}
    facts = [each for each in history.facts if digest_of(each) not in referred]
    nobody = "no night that is kept refers to it"
    return (
        tuple(_list_attempts(history, kept, RESULTS)),
        tuple(_list_attempts(history, kept, "")),
        tuple(Deletion(stored=each, reason=f"{nobody}, and no package") for each in facts),
        tuple(
            Deletion(stored=each.stored, reason=f"its package goes: {nobody}")
            for each in history.members
            if each.sha256 in gone
        ),
        *_order_packages(
            Deletion(stored=each, reason=f"{nobody}, and no channel") for each in packages
        ),
    )


def _list_attempts(
    history: StoreHistory, kept: Mapping[Entry, object], folder: str
) -> Iterator[Deletion]:
    """Yield the results of nights that are not kept; if ``folder`` is "", yield their logs."""
    past = {(each.cell, each.night) for each in history.past}
    for stored in history.attempts:
        found, attempt = _OF_NIGHT.fullmatch(stored.name), split_attempt(stored.name)
        if found is None or attempt is None or (found[2] == RESULTS) != bool(folder):
            continue
        entry = (attempt[0], found[1])
        if entry in past and entry not in kept:
            yield Deletion(
                stored=stored,
                reason="neither one of the last nights nor the last night that passed",
            )


def _require_last_good(history: StoreHistory, retention: Retention[Entry]) -> None:
    """Raise PruneRefusedError if a cell would lose the package that last worked."""
    gone = {each.stored.name for step in retention.steps for each in step}
    deleted = {digest_of(Stored(name=name, size=0)) for name in gone} - {""}
    entries = {
        (attempt[0], found[1])
        for name in gone
        if (found := _OF_NIGHT.fullmatch(name)) and (attempt := split_attempt(name))
    }
    for cell, nights in _by_cell(history).items():
        good = next((each for each in nights if each.state in GOOD), None)
        if good is not None and (good.digests & deleted or (cell, good.night) in entries):
            raise PruneRefusedError(
                f"{cell}: it would lose its last good package, from {good.night}"
            )


# Channels


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpiryRule:
    """A rule for how many members a channel keeps of each configuration of a project."""

    channel: str
    keep: int = 5  # how many of the newest; at least 1
    days: int = 0  # also those that were pushed within so many days


def expire(history: StoreHistory, rule: ExpiryRule, now: datetime) -> Retention[str]:
    """Remove older members from a channel, and packages that nothing refers to afterwards.

    A package is deleted if it was in the channel, or if an earlier run marked it. It is kept if
    another member or a night refers to it. A package that was never in a channel is kept, too.
    """
    kept = {name: (why,) for name, why in _keep_members(history, rule, now)}
    going = [
        each
        for each in history.members
        if each.channel == rule.channel and each.stored.name not in kept
    ]
    gone_names = {each.stored.name for each in going}
    held = {each.sha256 for each in history.members if each.stored.name not in gone_names}
    held |= {origin for made, origin in history.origins if made in held}
    marked = {digest_of(each) for each in history.packages if _is_mark(each)}
    superfluous = ({each.sha256 for each in going} | marked) - held - history.referred
    why = f"not among the newest {rule.keep} of its configuration" + (
        f" nor pushed in the last {rule.days} days" if rule.days else ""
    )
    return Retention(
        kept=kept,
        steps=(
            tuple(Deletion(stored=each.stored, reason=why) for each in going),
            *_list_packages(history, superfluous),
        ),
        marked=tuple(sorted(superfluous - marked)),
    )


def _list_packages(history: StoreHistory, superfluous: set[str]) -> Iterator[tuple[Deletion, ...]]:
    """Yield the steps: delete facts, documents, the objects next to them, and last the marks."""
    why = "no channel contains it, and no night refers to it"

    def choose(objects: Iterable[Stored]) -> list[Deletion]:
        return [
            Deletion(stored=each, reason=why) for each in objects if digest_of(each) in superfluous
        ]

    yield tuple(choose(history.facts))
    yield from _order_packages(choose(e for e in history.packages if not _is_mark(e)))
    known = {each.name: each for each in history.packages}
    marks = [expired_name(each) for each in sorted(superfluous)]
    yield tuple(choose(known.get(name, Stored(name=name, size=0)) for name in marks))


def _is_mark(stored: Stored) -> bool:
    digest = digest_of(stored)
    return bool(digest) and stored.name == expired_name(digest)


def _keep_members(
    history: StoreHistory, rule: ExpiryRule, now: datetime
) -> Iterator[tuple[str, str]]:
    """Yield the names of the members that stay, with the reason."""
    groups: dict[tuple[str, ...], list[tuple[ChannelMember, Artifact]]] = defaultdict(list)
    for each in history.members:
        if each.channel != rule.channel:
            continue
        artifact = history.artifacts.get(each.sha256)
        if artifact is None:
            yield each.stored.name, "its document is missing or unreadable"
        else:
            groups[_configuration(artifact)].append((each, artifact))
    for members in groups.values():
        yield from _keep_of_one(members, rule, now)


def _configuration(artifact: Artifact) -> tuple[str, ...]:
    axes = (str(getattr(artifact, axis)) for axis in FILE_AXES)
    return artifact.kind, artifact.project, artifact.subdir, *axes


def _keep_of_one(
    members: Sequence[tuple[ChannelMember, Artifact]], rule: ExpiryRule, now: datetime
) -> Iterator[tuple[str, str]]:
    newest_first = sorted(members, key=lambda pair: _age(pair[1]), reverse=True)
    for place, (member, artifact) in enumerate(newest_first):
        pushed = parse_upload_time(artifact.pushed)
        if place < max(rule.keep, 1):
            yield member.stored.name, f"of the last {rule.keep}"
        elif pushed is None:
            yield member.stored.name, "the time of its push is unknown"
        elif rule.days and pushed > now - timedelta(days=rule.days):
            yield member.stored.name, f"pushed in the last {rule.days} days"


def _age(artifact: Artifact) -> tuple[Version, str, str]:
    try:
        version = Version(artifact.version)
    except ValueError:  # InvalidVersion, or too many digits
        version = _OLDEST
    moment = parse_upload_time(artifact.pushed)
    return version, moment.isoformat() if moment else "", artifact.file_name


# Steps of both decisions


def _order_packages(deletions: Iterable[Deletion]) -> tuple[tuple[Deletion, ...], ...]:
    """Return the steps in which artifacts are deleted: documents before other objects."""
    found = [*deletions]
    documents = tuple(each for each in found if split_artifact(each.stored.name))
    return documents, tuple(each for each in found if not split_artifact(each.stored.name))


def digest_of(stored: Stored) -> str:
    """Return the SHA-256 of the package that an object below packages/ or facts/ belongs to.

    Return "" for other objects.
    """
    found = _PACKAGE.fullmatch(stored.name) or _FACTS.fullmatch(stored.name)
    return found[1] if found else ""
