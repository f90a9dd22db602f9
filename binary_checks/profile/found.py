"""What holds of a profile that nobody named: it was found in the folder, and may be anybody's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from binary_checks.declaring import Check
from binary_checks.profile.reading import Profile

CODE = frozenset(
    [
        *("architectures", "available", "compiled", "devices", "module", "parts", "requires"),
        *("snippet", "snippets", "use", "version"),
    ]
)
"""Options of checks that run the package: programs, expressions, names to import or to install."""
_FEW = 5


def leave_out_code(profile: Profile, checks: Iterable[Check[Any]]) -> Profile:
    """The profile without the network and code that would run; what a shipped one says stays.

    Where it brings checks of its own, what it says of them goes with them.
    """
    by_id = {check.id: check for check in checks}
    known = by_id if profile.checks else _Everything()
    options: dict[str, Mapping[str, Any]] = {}
    left = [path.name for path in profile.checks]
    left += ["network"] * profile.network
    for check_id, values in profile.options.items():
        check, shipped = by_id.get(check_id), profile.shipped.get(check_id, {})
        runs = CODE if check is not None and check.runs_package else frozenset[str]()
        code = {name for name in runs & values.keys() if values[name] != shipped.get(name)}
        left += (f"options.{check_id}.{name}" for name in sorted(code))
        kept = {name: value for name, value in values.items() if name not in code}
        kept.update((name, shipped[name]) for name in code & shipped.keys())
        if check_id in known and (kept or not values):
            options[check_id] = kept
    return replace(
        profile,
        checks=(),
        enable=frozenset(name for name in profile.enable if name in known),
        disable=frozenset(name for name in profile.disable if name in known),
        options=options,
        network=False,
        known_problems=tuple(each for each in profile.known_problems if each.check in known),
        left_out=tuple(left),
    )


class _Everything:
    """Holds every name: one that no check has is a mistake, and said elsewhere."""

    def __contains__(self, name: object) -> bool:
        return True


def announce(profile: Profile) -> Iterator[str]:
    """Say which known problems it accepts, by check."""
    counts = Counter(known.check for known in profile.known_problems)
    if counts:
        checks = _list_few([f"{name} ({count})" for name, count in sorted(counts.items())])
        yield f"{profile.source}, which was found and not named, accepts known problems: {checks}"


def say_left_out(profile: Profile) -> str:
    """Say in one line what does not run, and how it would."""
    what = _list_few(profile.left_out)
    return (
        f"{profile.source} was found, not named, and holds without {what}: "
        "--binary-profile pyproject.toml names it"
    )


def _list_few(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more
