"""What a channel keeps of its members, and what may go of the packages: decided purely."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from packaging.version import Version

from binary_checks.fleet.artifacts.artifact import AXES, Artifact
from binary_checks.fleet.artifacts.channel_members import ChannelMember
from binary_checks.fleet.artifacts.simple_index import read_time
from binary_checks.fleet.nights.night_retention import Deletion, digest_of, order_packages
from binary_checks.fleet.store import Stored
from binary_checks.fleet.store.store_names import expired_name

_OLDEST = Version("0.dev0")


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpiryRule:
    """What a channel keeps of each configuration of each project: all else goes."""

    channel: str
    keep: int = 5  # the newest; at least 1
    days: int = 0  # and all that were pushed since


@dataclass(frozen=True, kw_only=True, slots=True)
class RepositoryHistory:
    """All that the decision depends on."""

    members: tuple[ChannelMember, ...]  # of all channels
    artifacts: Mapping[str, Artifact]  # by SHA-256; of that channel's members, as far as known
    packages: tuple[Stored, ...]
    facts: tuple[Stored, ...] = ()
    referred: frozenset[str] = frozenset()  # SHA-256, by nights
    now: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelRetention:
    """Which members stay, and why; and what goes, in steps of which each ends first."""

    kept: Mapping[str, str]  # by the member's name: why
    members: tuple[Deletion, ...] = ()
    marked: tuple[str, ...] = ()  # SHA-256 of packages that go: each gets a mark before its members
    packages: tuple[tuple[Deletion, ...], ...] = field(default=())

    @property
    def steps(self) -> tuple[tuple[Deletion, ...], ...]:
        """All of them, in order."""
        return self.members, *self.packages


def expire(history: RepositoryHistory, rule: ExpiryRule) -> ChannelRetention:
    """Take the older members out of a channel, and the packages that nobody holds then.

    A package goes that was in the channel, or that an earlier run has marked; never one that
    another member or a night refers to, or that nobody ever put into a channel.
    """
    kept = dict(_keep(history, rule))
    going = [
        each
        for each in history.members
        if each.channel == rule.channel and each.stored.name not in kept
    ]
    gone_names = {each.stored.name for each in going}
    held = {each.sha256 for each in history.members if each.stored.name not in gone_names}
    marked = {digest_of(each) for each in history.packages if _is_mark(each)}
    superfluous = ({each.sha256 for each in going} | marked) - held - history.referred
    why = f"neither of the last {rule.keep} of its configuration" + (
        f" nor of the last {rule.days} days" if rule.days else ""
    )
    return ChannelRetention(
        kept=kept,
        members=tuple(Deletion(stored=each.stored, reason=why) for each in going),
        marked=tuple(sorted(superfluous - marked)),
        packages=tuple(_list_packages(history, superfluous)),
    )


def _list_packages(
    history: RepositoryHistory, superfluous: set[str]
) -> Iterator[tuple[Deletion, ...]]:
    """Facts, documents, all that lies beside them, and last the marks that a next run goes by."""
    why = "no channel holds it, and no night refers to it"

    def choose(objects: Iterable[Stored]) -> list[Deletion]:
        return [
            Deletion(stored=each, reason=why) for each in objects if digest_of(each) in superfluous
        ]

    yield tuple(choose(history.facts))
    yield from order_packages(choose(e for e in history.packages if not _is_mark(e)))
    known = {each.name: each for each in history.packages}
    marks = [expired_name(each) for each in sorted(superfluous)]
    yield tuple(choose(known.get(name, Stored(name=name, size=0)) for name in marks))


def _is_mark(stored: Stored) -> bool:
    digest = digest_of(stored)
    return bool(digest) and stored.name == expired_name(digest)


def _keep(history: RepositoryHistory, rule: ExpiryRule) -> Iterator[tuple[str, str]]:
    """The names of the members that stay, and why."""
    groups: dict[tuple[str, ...], list[tuple[ChannelMember, Artifact]]] = defaultdict(list)
    for each in history.members:
        if each.channel != rule.channel:
            continue
        artifact = history.artifacts.get(each.sha256)
        if artifact is None:
            yield each.stored.name, "nothing is known of it"
        else:
            groups[_configuration(artifact)].append((each, artifact))
    for members in groups.values():
        yield from _keep_of_one(members, rule, history.now)


def _configuration(artifact: Artifact) -> tuple[str, ...]:
    axes = (str(getattr(artifact, axis)) for axis in AXES)
    return artifact.kind, artifact.project, artifact.subdir, *axes


def _keep_of_one(
    members: Sequence[tuple[ChannelMember, Artifact]], rule: ExpiryRule, now: datetime
) -> Iterator[tuple[str, str]]:
    newest_first = sorted(members, key=lambda pair: _age(pair[1]), reverse=True)
    for place, (member, artifact) in enumerate(newest_first):
        pushed = read_time(artifact.pushed)
        if place < max(rule.keep, 1):
            yield member.stored.name, f"of the last {rule.keep}"
        elif pushed is None:
            yield member.stored.name, "nobody recorded when it was pushed"
        elif rule.days and pushed > now - timedelta(days=rule.days):
            yield member.stored.name, f"of the last {rule.days} days"


def _age(artifact: Artifact) -> tuple[Version, str, str]:
    try:
        version = Version(artifact.version)
    except ValueError:  # InvalidVersion, or digits without end
        version = _OLDEST
    moment = read_time(artifact.pushed)
    return version, moment.isoformat() if moment else "", artifact.file_name
