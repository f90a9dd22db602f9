"""Turns the Linux tags of a wheel into the system that they promise to run on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from packaging.tags import Tag

from binary_checks.errors import Unavailable
from binary_checks.model import Policy, SystemLibrary, TargetSystem
from binary_checks.systems.library_exports import system_library
from binary_checks.systems.policies import policies, policy_for
from binary_checks.systems.python_tags import interpreter_of, spell_interpreter

_LINUX = re.compile(
    r"(?:(?P<libc>many|musl)linux(?:\d+|_(?P<major>\d+)_(?P<minor>\d+))|linux)_(?P<architecture>\w+)"
)


def is_linux(platform: str) -> bool:
    """Whether a platform tag names a Linux system."""
    return _LINUX.fullmatch(platform) is not None


def linux_target(tags: tuple[Tag, ...], extra_libraries: frozenset[str]) -> TargetSystem:
    """The least that the Linux tags of a set claim to run on.

    Where they name several libcs or architectures one of them is the target, glibc before musl,
    and the tags of the others are ``unjudged``; foreign-libc alone judges every musllinux tag. A
    plain ``linux_<arch>`` promises nothing: no policy, and the libraries of the newest one, since
    its users are those who built it. Raises Unavailable for an architecture without data.
    """
    platforms = sorted({tag.platform for tag in tags})
    systems = {name: match for name in platforms if (match := _LINUX.fullmatch(name))}
    lowest = min(systems, key=lambda name: (_precedence(systems[name]), _age(name)))
    match = systems[lowest]
    libc, architecture = _libc(match), match["architecture"]
    same = {n for n, m in systems.items() if (_libc(m), m["architecture"]) == (libc, architecture)}
    known = policies(libc, architecture)
    if not known:
        raise Unavailable(f"there are no data of what {lowest} promises")
    policy = policy_for(lowest) or _nearest(known, match)
    assumed = policy or known[-1]
    python = interpreter_of(tags)
    return TargetSystem(
        name=", ".join(filter(None, (lowest, spell_interpreter(python)))),
        libc=libc,
        architectures=(architecture,),
        policy=policy,
        policies=known,
        libraries=assumed.libraries | extra_libraries,
        interpreter=python,
        library_data=_LibraryData(assumed),
        unjudged=tuple(name for name in platforms if name not in same),
    )


def _precedence(match: re.Match[str]) -> tuple[bool, bool]:
    """Order the systems of one set: what promises something, then what we know best."""
    return match["libc"] is None, _libc(match) != "glibc"


def _libc(match: re.Match[str]) -> str:
    return "musl" if match["libc"] == "musl" else "glibc"


def _age(platform: str) -> tuple[int, int, str]:
    """Order platform tags from the one that claims most users to the one that claims fewest."""
    policy = policy_for(platform)
    if policy is not None:
        return (*policy.minimum, platform)
    match = _LINUX.fullmatch(platform)
    if match is None or match["major"] is None:
        return 99, 0, platform
    return int(match["major"]), int(match["minor"]), platform


def _nearest(known: Iterable[Policy], match: re.Match[str]) -> Policy | None:
    """The newest policy no newer than the tag: for manylinux_2_29 what manylinux_2_28 allows.

    The policies were written for the releases of distributions; a tag between two of them promises
    at least the older. One older than all of them has none.
    """
    if match["major"] is None:
        return None
    version = (int(match["major"]), int(match["minor"]))
    return max(
        (policy for policy in known if policy.minimum <= version),
        key=lambda policy: policy.minimum,
        default=None,
    )


class _LibraryData(Mapping[str, SystemLibrary]):
    """What the libraries of a policy's system export, each read when it is asked for."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def __getitem__(self, soname: str) -> SystemLibrary:
        found = system_library(soname, architecture=self._policy.architecture, policy=self._policy)
        if found is None:
            raise KeyError(soname)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in sorted(self._policy.libraries) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
