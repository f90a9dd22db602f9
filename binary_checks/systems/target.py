"""Turns the tags of a wheel into the system that they promise to run on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn

from packaging.tags import Tag

from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.model import Interpreter, Policy, SystemLibrary, TargetSystem
from binary_checks.systems.interpreters import interpreter, interpreter_versions
from binary_checks.systems.libraries import system_library
from binary_checks.systems.policies import policies, policy_for

_LINUX = re.compile(
    r"(?:(?P<libc>many|musl)linux(?:\d+|_(?P<major>\d+)_(?P<minor>\d+))|linux)_(?P<architecture>\w+)"
)
_NOT_SIMULATED = {"macosx_": "macOS", "win": "Windows"}
_PYTHON = re.compile(r"(?P<name>cp|py|pp)(?P<major>\d)_?(?P<minor>\d*)")


def target_for(wheel_tags: Iterable[Tag], extra_libraries: frozenset[str]) -> TargetSystem:
    """The least that a compressed set of tags claims to run on: every tag of it is a claim.

    Where the set names systems that cannot be compared (another libc, another architecture,
    another system than Linux) one of them is the target, glibc before musl, and the tags of the
    others are ``unjudged``; foreign-libc alone judges every musllinux tag.
    ``extra_libraries`` are names that the users of this package have besides. A plain
    ``linux_<arch>`` promises nothing: no policy, and the libraries of the newest one, since its
    users are those who built it. Raises Unavailable for a system whose loader is not simulated yet
    or of whose libraries there are no data, NotApplicable for tags that name no system.
    """
    tags = tuple(wheel_tags)
    platforms = sorted({tag.platform for tag in tags})
    systems = {name: match for name in platforms if (match := _LINUX.fullmatch(name))}
    if not systems:
        _refuse(platforms)
    lowest = min(systems, key=lambda name: (_precedence(systems[name]), _age(name)))
    match = systems[lowest]
    libc, architecture = _libc(match), match["architecture"]
    same = {n for n, m in systems.items() if (_libc(m), m["architecture"]) == (libc, architecture)}
    known = policies(libc, architecture)
    if not known:
        raise Unavailable(f"there are no data of what {lowest} promises")
    policy = policy_for(lowest) or _nearest(known, match)
    assumed = policy or known[-1]
    python = _interpreter(tags)
    return TargetSystem(
        name=", ".join(filter(None, (lowest, _spell(python)))),
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


def _refuse(platforms: Iterable[str]) -> NoReturn:
    """Where there is something to look at, say so: it is not looked at, not fit."""
    names = ", ".join(platforms) or "no tag"
    for beginning, system in _NOT_SIMULATED.items():
        if any(name.startswith(beginning) for name in platforms):
            raise Unavailable(f"the {system} loader is not simulated yet ({names})")
    raise NotApplicable(f"no ELF loader for {names}")


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


def _interpreter(tags: Iterable[Tag]) -> Interpreter | None:
    """The oldest CPython that the tags claim to run on, as far as there is data about it.

    ``py3-none`` is bound to no Python: what a library there needs of one is the stable ABI at
    best, which the newest has whole. What is older than all data counts as the oldest there is:
    hardly a symbol was added before; the limits of abi3 are judged by their own check.
    """
    versions: list[tuple[tuple[int, int], bool]] = []
    generic = False
    for tag in tags:
        match = _PYTHON.fullmatch(tag.interpreter)
        if match is None or match["name"] == "pp":
            continue
        if match["name"] == "py" or not match["minor"]:
            generic = True
        else:
            version = (int(match["major"]), int(match["minor"]))
            versions.append((version, tag.abi.startswith("cp") and tag.abi.endswith("t")))
    known = interpreter_versions()
    if versions:
        version, free_threaded = min(versions)
        return interpreter(max(version, known[0]), free_threaded=free_threaded)
    return interpreter(known[-1], free_threaded=False) if generic else None


def _spell(python: Interpreter | None) -> str:
    if python is None:
        return ""
    suffix = "t" if python.free_threaded else ""
    return "CPython {}.{}{}".format(*python.version, suffix)


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
