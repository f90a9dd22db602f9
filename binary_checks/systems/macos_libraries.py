"""Finds which libraries macOS has, since when, and what three of them export.

The names are Apple's public frameworks as pyobjc lists them, with the macOS that brought each, the
parts of libSystem, and what is well known of /usr/lib and the other frameworks; of what went away
little is known. Exports are those of libSystem.B from 10.15 to 27.0, as the text stubs in
``ziglang`` have them for both of Apple's architectures, and of libc++.1 and libc++abi up to macOS
14, as LLVM lists them. What any other library exports is not known. Private frameworks are not in
it, nor the languages that Apple ships.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from binary_checks.systems.committed import read_committed

Version = tuple[int, int]

_ALWAYS = (10, 0)


@functools.cache
def macos_libraries(version: Version) -> frozenset[str]:
    """List the libraries that every macOS from ``version`` on has, by all names that dyld knows.

    They are what install names say: ``/usr/lib/libz.1.dylib``, a framework with and without its
    ``Versions/A``. Since macOS 11 none of them lies on a disk. What is not listed is unknown, and
    need not be missing.
    """
    names = _read_names()
    return frozenset(
        spelling
        for spelling, name in names.spellings.items()
        if names.histories[name][0] <= version and names.histories[name][1] is None
    )


def macos_library_versions(name: str) -> tuple[Version, Version | None] | None:
    """Say which macOS first had a library and, where it is gone, which had it last.

    The first is (10, 0) where it is older than all data, None stands for a name that is unknown.
    """
    names = _read_names()
    known = names.spellings.get(_shorten(name))
    return None if known is None else names.histories[known]


@functools.cache
def partly_there(version: Version) -> Mapping[str, str]:
    """Say of each library that not every macOS from ``version`` on has, which have it.

    By all names that dyld knows it by: "macOS 13 and later", "macOS up to 12.2".
    """
    names = _read_names()
    found = {}
    for spelling, name in names.spellings.items():
        first, last = names.histories[name]
        if last is not None:
            found[spelling] = f"macOS up to {_spell(last)}"
        elif first > version:
            found[spelling] = f"macOS {_spell(first)} and later"
    return found


def macos_exports(name: str, version: Version) -> Mapping[Version | None, tuple[str, ...]] | None:
    """Find what a library exports, and what it re-exports, by the macOS that first had it.

    It is joined over all macOS known: what is missing here is in no macOS up to ``version``. Under
    None is what is older than the data. Where only two SDKs tell, it is the first release of the
    newer one's year, so that no system is said to lack what it has. None in the place of all where
    there are no data, which is so of all but three libraries, or none as new as ``version``: a
    package that runs on 15.0 alone may need what came with 15.
    """
    known = _find_exports(name)
    return None if known is None or known.through < version else known.by_first


@dataclass(frozen=True, kw_only=True, slots=True)
class _Names:
    histories: Mapping[str, tuple[Version, Version | None]] = field(hash=False)
    spellings: Mapping[str, str] = field(hash=False)  # every name to the install name
    exports: frozenset[str]  # install names of libraries whose exports are known


@dataclass(frozen=True, kw_only=True, slots=True)
class _Exports:
    through: Version  # the newest macOS that the data cover
    by_first: Mapping[Version | None, tuple[str, ...]] = field(hash=False)


@functools.cache
def _read_names() -> _Names:
    content = read_committed("macos", "libraries.json.gz")
    histories = {}
    for versions, names in content["versions"]:
        first, _, last = versions.partition("-")
        history = (_parse(first) if first else _ALWAYS, _parse(last) if last else None)
        histories.update(dict.fromkeys(names.split("\n"), history))
    spellings = {name: name for name in histories}
    for name in histories:
        spellings.setdefault(_take_version(name)[0], name)
    spellings.update(content["aliases"])
    return _Names(histories=histories, spellings=spellings, exports=frozenset(content["exports"]))


def _shorten(name: str) -> str:
    """Drop ``Versions/Current``, a link that every framework has."""
    shorter, version = _take_version(name)
    return shorter if version == "Current" else name


def _take_version(name: str) -> tuple[str, str]:
    """Take the version out of ``/X.framework/Versions/A/X``; it is "" where the name is no such."""
    parts = name.split("/")
    if len(parts) < 5 or parts[-3] != "Versions" or parts[-4] != f"{parts[-1]}.framework":
        return name, ""
    return "/".join((*parts[:-3], parts[-1])), parts[-2]


def _find_exports(name: str) -> _Exports | None:
    # The name comes from a package: it is looked up in a list before it becomes part of a path.
    names = _read_names()
    known = names.spellings.get(_shorten(name))
    return _read_exports(known) if known in names.exports else None


@functools.cache
def _read_exports(name: str) -> _Exports:
    content = read_committed("macos", f"{name.rpartition('/')[2]}.json.gz")
    by_first = {
        _parse(version) if version else None: tuple(symbols.split("\n"))
        for version, symbols in content["since"]
    }
    return _Exports(through=_parse(content["through"]), by_first=by_first)


def _spell(version: Version) -> str:
    """Spell a version as Apple does: 13 is a release's name and 13.0 is not, 10.15 is."""
    major, minor = version
    return f"{major}.{minor}" if minor or major == 10 else str(major)


def _parse(text: str) -> Version:
    major, minor = text.split(".")
    return int(major), int(minor)
