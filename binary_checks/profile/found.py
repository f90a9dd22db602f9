"""What holds of a profile that nobody named: it was found in the folder, and may be anybody's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from binary_checks.declaring import Check, Gatherer
from binary_checks.model.requests import Request
from binary_checks.profile.probe_tables import find_requests, list_code
from binary_checks.profile.reading import Profile

_FEW = 5


def leave_out_code(
    profile: Profile, declared: Iterable[Check[Any] | Gatherer[..., Any]]
) -> Profile:
    """The profile without the network and code that would run; what a shipped one says stays.

    Where it brings checks of its own, what it says of them goes with them.
    """
    declared = tuple(declared)
    ids = {each.id for each in declared if isinstance(each, Check)}
    known = ids if profile.checks else _Everything()
    kinds = find_requests(declared)
    probes = dict(_keep_harmless(profile, kinds))
    left = [path.name for path in profile.checks]
    left += ["network"] * profile.network
    left += _list_left_out(profile, probes)
    return replace(
        profile,
        checks=(),
        enable=frozenset(name for name in profile.enable if name in known),
        disable=frozenset(name for name in profile.disable if name in known),
        options={name: values for name, values in profile.options.items() if name in known},
        levels={name: levels for name, levels in profile.levels.items() if name in known},
        probes=probes,
        network=False,
        known_problems=tuple(each for each in profile.known_problems if each.check in known),
        left_out=tuple(left),
    )


def _keep_harmless(
    profile: Profile, kinds: Mapping[str, type[Request]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give each table of probes with the shipped profile's values for all by which code runs."""
    for table, values in profile.probes.items():
        shipped, code = profile.shipped.get(table, {}), list_code(table, kinds)
        if code is None:
            if not profile.checks:  # else its own checks would know the table
                yield table, dict(values)
            continue
        kept = {name: value for name, value in values.items() if name not in code}
        kept.update((name, shipped[name]) for name in code & shipped.keys())
        if kept or not values:
            yield table, kept


def _list_left_out(profile: Profile, kept: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for table, values in profile.probes.items():
        for name, value in sorted(values.items()):
            if table not in kept or kept[table].get(name) != value:
                yield f"probes.{table}.{name}"


class _Everything:
    """Holds every name: one that no check has is a mistake, and said elsewhere."""

    def __contains__(self, name: object) -> bool:
        return True


def announce(profile: Profile) -> Iterator[str]:
    """Say which known problems it accepts, by check."""
    counts = Counter(each.check for each in profile.known_problems if each.in_profile)
    if counts:
        checks = list_few([f"{name} ({count})" for name, count in sorted(counts.items())])
        yield f"{profile.source}, which was found and not named, accepts known problems: {checks}"


def say_left_out(profile: Profile) -> str:
    """Say in one line what does not run, and how it would."""
    what = list_few(profile.left_out)
    return (
        f"{profile.source} was found, not named, and is used without {what}: "
        f"give --binary-profile {profile.source} to use all of it"
    )


def list_few(names: Iterable[str]) -> str:
    """The first of them, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more
