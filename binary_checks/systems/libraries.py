"""The libraries of the systems that tags name, and their exports: committed data."""

from __future__ import annotations

import functools
import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from binary_checks.model import Policy, SystemLibrary

# Reading the committed data files.

Version = tuple[int, int]


def read_committed(*path: str) -> Any:
    """Read a JSON file below ``data``; files ending in ``.gz`` are decompressed."""
    content = resources.files(__package__).joinpath("data", *path).read_bytes()
    return json.loads(gzip.decompress(content) if path[-1].endswith(".gz") else content)


def list_committed(*path: str) -> frozenset[str]:
    """Return the file names in a folder below ``data``."""
    folder = resources.files(__package__).joinpath("data", *path)
    return frozenset(entry.name for entry in folder.iterdir())


def parse_version(text: str) -> Version:
    """Return the two numbers of ``3.12``."""
    major, minor = text.split(".")
    return int(major), int(minor)


def names_of(version: Version, groups: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return the names for a version; each group is a string of versions and a string of names."""
    spelled = "{}.{}".format(*version)
    having = (names.split() for versions, names in groups if spelled in versions.split())
    return frozenset().union(*having)


# The manylinux or musllinux policy of a platform tag.


class SystemLibraries(Mapping[str, SystemLibrary]):
    """The exports of a system's libraries, as far as they are known, each read on first access."""

    def __init__(self, names: frozenset[str], find: Callable[[str], SystemLibrary | None]) -> None:
        self._names, self._find = names, functools.cache(find)

    def __getitem__(self, name: str) -> SystemLibrary:
        found = self._find(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in sorted(self._names) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def policy_for(platform_tag: str) -> Policy | None:
    """Return the policy of ``manylinux_2_28_x86_64``, ``manylinux1_i686``, ``musllinux_1_2_i686``.

    Return None for a tag without a policy: ``linux_x86_64``, tags of other systems, and libc
    versions between two policies (``manylinux_2_29_x86_64``).
    """
    return _read_by_tag().get(platform_tag)


def policies(libc: str, architecture: str) -> tuple[Policy, ...]:
    """Return the policies of a libc (``glibc``, ``musl``) on an architecture, lowest first."""
    return tuple(
        policy
        for policy in _read_policies()
        if policy.libc == libc and policy.architecture == architecture
    )


@functools.cache
def _read_by_tag() -> Mapping[str, Policy]:
    return {
        f"{name}_{policy.architecture}": policy
        for policy in _read_policies()
        for name in (policy.name, *policy.aliases)
    }


@functools.cache
def _read_policies() -> tuple[Policy, ...]:
    content = read_committed("policies.json")
    rows = (policy for row in content["policies"] for policy in _expand(row, content["libc_names"]))
    return tuple(sorted(rows, key=lambda policy: policy.minimum))


def _expand(row: dict[str, Any], libc_names: dict[str, Any]) -> Iterator[Policy]:
    """Yield one policy for each architecture of a row; the data store common parts only once."""
    major, minor = row["name"].split("_")[1:]
    libraries = frozenset(row["libraries"])
    forbidden = {soname: frozenset(names) for soname, names in row["forbidden_symbols"].items()}
    for architecture, versions in row["versions"].items():
        yield Policy(
            name=row["name"],
            architecture=architecture,
            libc=row["libc"],
            minimum=(int(major), int(minor)),
            libraries=libraries.union(libc_names[row["libc"]][architecture]),
            versions={prefix: frozenset(listed) for prefix, listed in versions.items()},
            forbidden_symbols=forbidden,
            aliases=tuple(row["aliases"]),
        )


# The exports of a library of the target system.

# Parts of glibc whose symbols moved to libc.so.6, most of them in 2.34, some long before
# (nanosleep, clock_gettime). Old objects still name the old library, but ld.so searches every
# loaded library.
_MOVED_TO_LIBC = frozenset(
    {
        "libanl.so.1",
        "libdl.so.2",
        "libpthread.so.0",
        "libresolv.so.2",
        "librt.so.1",
        "libutil.so.1",
    }
)
# The nodes that glibc gave to the symbols that it moved to libc.so.6. libc.so.6 has them under
# their older nodes, too, but only since the same release.
_NODES_OF_MOVES = frozenset({"GLIBC_2.32", "GLIBC_2.34"})


def system_library(soname: str, *, architecture: str, policy: Policy) -> SystemLibrary | None:
    """Return the exports of ``soname`` over all releases of the system; None if there are no data.

    libpthread.so.0, libdl.so.2 and similar libraries include the exports of libc.so.6, which they
    load and which now contains their symbols. Their version nodes do not include libc.so.6's,
    because ld.so checks version nodes by file.
    """
    libc, name = _place(soname, policy)
    # The name comes from a package: it may become part of a path only if it is in the list.
    if f"{name}.json.gz" not in _list_tables(libc):
        return None
    return _read_library(libc, name, soname, architecture)


def _place(soname: str, policy: Policy) -> tuple[str, str]:
    """Return the folder and the file name of the table for a soname."""
    # libz.so.1 is the only other library in a musllinux policy; musl's and glibc's zlib are the
    # same.
    if policy.libc != "musl" or soname == "libz.so.1":
        return "glibc", soname
    # musl's libc is also its loader: one file with two names, both with the architecture.
    is_libc = soname in policy.libraries and "musl-" in soname
    return "musl", "libc.so" if is_libc else soname


@functools.cache
def _list_tables(libc: str) -> frozenset[str]:
    return list_committed("libraries", libc)


@functools.cache
def _read_library(libc: str, name: str, soname: str, architecture: str) -> SystemLibrary | None:
    content = read_committed("libraries", libc, f"{name}.json.gz")
    versions = content["versions"].get(architecture)
    if versions is None:
        return None
    symbols: dict[str, frozenset[str]] = {}
    # Names are grouped by versions, so that thousands of names share a few sets.
    for by_architecture, names in content["groups"]:
        nodes = by_architecture.get(architecture)
        if nodes is not None:
            symbols.update(dict.fromkeys(names.split(" "), frozenset(nodes.split(" "))))
    moved = {}
    if name == "libc.so.6":
        moved = {
            symbol: library
            for symbol, library in _read_earlier_libraries().items()
            if _NODES_OF_MOVES & symbols.get(symbol, frozenset())
        }
    elif name in _MOVED_TO_LIBC:
        newest = _read_library(libc, "libc.so.6", "libc.so.6", architecture)
        if newest is not None:
            moved = {
                symbol: library
                for symbol, library in newest.moved.items()
                if library != name and symbol not in symbols
            }
            for symbol, nodes in newest.symbols.items():
                symbols[symbol] = nodes | symbols[symbol] if symbol in symbols else nodes
    return SystemLibrary(
        soname=soname, symbols=symbols, versions=frozenset(versions.split()), moved=moved
    )


@functools.cache
def _read_earlier_libraries() -> Mapping[str, str]:
    """Map the exports of Debian bullseye's libpthread, librt and so on to these libraries.

    The same symbols moved on all architectures, and bullseye has packages for few of them.
    """
    return {
        symbol: library
        for library in sorted(_MOVED_TO_LIBC)
        for _, names in read_committed("libraries", "glibc", f"{library}.json.gz")["groups"]
        for symbol in names.split(" ")
    }


# The libraries of macOS with their first version, and the exports of three of them.
#
# The names are Apple's public frameworks with their first macOS as listed by pyobjc, the parts of
# libSystem, and commonly known parts of /usr/lib and of other frameworks. The data contain few
# removed libraries. Exports are known only for libSystem.B from 10.15 to 27.0, from the text stubs
# in ``ziglang`` for both of Apple's architectures, and for libc++.1 and libc++abi up to macOS 14,
# from LLVM's lists. Private frameworks and the languages that Apple ships are not included.

_ALWAYS = (10, 0)


@functools.cache
def macos_libraries(version: Version) -> frozenset[str]:
    """Return the libraries that every macOS from ``version`` on has, by all names known to dyld.

    The names are install names: ``/usr/lib/libz.1.dylib``, a framework with and without its
    ``Versions/A``. Since macOS 11 these libraries have no files on the disk. An unlisted library is
    unknown, but not necessarily missing.
    """
    names = _read_names()
    return frozenset(
        spelling
        for spelling, name in names.spellings.items()
        if names.histories[name][0] <= version and names.histories[name][1] is None
    )


def macos_library_versions(name: str) -> tuple[Version, Version | None] | None:
    """Return the first macOS with a library, and the last one if it was removed.

    The first is (10, 0) if the library is older than the data. Return None for an unknown name.
    """
    names = _read_names()
    known = names.spellings.get(_shorten(name))
    return None if known is None else names.histories[known]


@functools.cache
def macos_libraries_partly(version: Version) -> Mapping[str, str]:
    """Map libraries to the macOS releases that have them, if not all from ``version`` on do.

    Keys are all names known to dyld; values are texts: "macOS 13 and later", "macOS up to 12.2".
    """
    names = _read_names()
    found = {}
    for spelling, name in names.spellings.items():
        first, last = names.histories[name]
        if last is not None:
            found[spelling] = f"macOS up to {_format_version(last)}"
        elif first > version:
            found[spelling] = f"macOS {_format_version(first)} and later"
    return found


def macos_exports(name: str, version: Version) -> Mapping[Version | None, tuple[str, ...]] | None:
    """Map each macOS to the names that a library exports, or re-exports, since that macOS.

    Exports of all known macOS are joined: a symbol that is not included is in no macOS up to
    ``version``. The key None has the symbols older than the data. If only two SDKs differ, the key
    is the first release of the newer SDK's year, so that no system is wrongly reported to lack a
    symbol. Return None if there are no data (there are data for three libraries only), or if the
    data are older than ``version``: a package that requires macOS 15.0 may need symbols added in
    15.
    """
    known = _find_exports(name)
    return None if known is None or known.through < version else known.by_first


@dataclass(frozen=True, kw_only=True, slots=True)
class _Names:
    histories: Mapping[str, tuple[Version, Version | None]] = field(hash=False)
    # name -> install name, for every name of a library
    spellings: Mapping[str, str] = field(hash=False)
    exports: frozenset[str]  # install names of libraries with known exports


@dataclass(frozen=True, kw_only=True, slots=True)
class _Exports:
    through: Version  # the newest macOS in the data
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
    """Remove ``Versions/Current``, a link in every framework."""
    shorter, version = _take_version(name)
    return shorter if version == "Current" else name


def _take_version(name: str) -> tuple[str, str]:
    """Split ``/X.framework/Versions/A/X`` into the name without version and the version.

    The version is "" for other names.
    """
    parts = name.split("/")
    if len(parts) < 5 or parts[-3] != "Versions" or parts[-4] != f"{parts[-1]}.framework":
        return name, ""
    return "/".join((*parts[:-3], parts[-1])), parts[-2]


def _find_exports(name: str) -> _Exports | None:
    # The name comes from a package: it may become part of a path only if it is in the list.
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


def _format_version(version: Version) -> str:
    """Format a version as Apple does: 13 instead of 13.0, but 10.15."""
    major, minor = version
    return f"{major}.{minor}" if minor or major == 10 else str(major)


def _parse(text: str) -> Version:
    major, minor = text.split(".")
    return int(major), int(minor)


# The DLLs and API sets of a clean Windows 10 or 11, and their exports.
#
# Names come from installation discs of Windows 10 and 11, as listed by delvewheel (for x86 and
# x86_64 also from Windows 7 to 8.1). They include ucrtbase.dll, but neither the Visual C++ runtime
# (msvcp140.dll, vcomp140.dll, mfc140u.dll) nor files of drivers (nvcuda.dll, vulkan-1.dll,
# OpenCL.dll). Exports are those of mingw-w64, wine and Microsoft's documentation together, up to
# the newest Windows 11: they show whether a function may come from a DLL, not whether the user's
# Windows has the function.

_API_SET = re.compile(r"(?:api|ext)-ms-[a-z0-9-]+-l\d+-\d+-\d+(?:\.dll)?")
_C_RUNTIME = "api-ms-win-crt-"
_UNVERSIONED = frozenset({""})
_ARCHITECTURES = ("x86_64", "i686", "aarch64")


@functools.cache
def windows_libraries(architecture: str) -> frozenset[str]:
    """Return the DLLs in System32 for processes of an architecture, in lower case.

    Empty for architectures other than x86_64, i686 and aarch64. API sets are not included, because
    they are not files.
    """
    groups = _content()["libraries"]
    found = (names.split(" ") for where, names in groups if architecture in where.split(" "))
    return frozenset().union(*found)


@functools.cache
def windows_libraries_partly(architecture: str) -> Mapping[str, str]:
    """Map DLLs to the Windows releases that have them, if not all of Windows 10 and 11 do.

    The releases are given as a text: "Windows 10 1903 and later". These
    DLLs are not in :func:`windows_libraries`.
    """
    found = _content()["partly"].items()
    return {name: which for name, (where, which) in found if architecture in where.split(" ")}


def is_api_set(name: str) -> bool:
    """Return whether ``name`` is an API set, which the loader maps to a DLL without a search."""
    return _API_SET.fullmatch(name.lower()) is not None


@functools.cache
def api_sets() -> frozenset[str]:
    """Return known API sets without their last number: ``api-ms-win-core-path-l1-1``."""
    return frozenset(_content()["api_sets"].split(" "))


def windows_library(name: str, architecture: str) -> SystemLibrary | None:
    """Return the exports of a system DLL, by name and, as ``#115``, by ordinal.

    Return None if the data may be incomplete. They are complete for few DLLs, and among the API
    sets only for the C runtime's, which have the exports of ucrtbase.dll. All ordinals up to the
    highest known ordinal are included.
    """
    lowered = name.lower()
    is_runtime = is_api_set(lowered) and lowered.startswith(_C_RUNTIME)
    table = "ucrtbase.dll" if is_runtime else lowered
    # The name comes from a package: it may become part of a path only if it is in the list.
    if architecture not in _ARCHITECTURES or f"{table}.json.gz" not in _list_windows_tables():
        return None
    symbols = _read_symbols(table, architecture)
    return SystemLibrary(soname=lowered, symbols=symbols, versions=frozenset())


@functools.cache
def _list_windows_tables() -> frozenset[str]:
    return list_committed("libraries", "windows")


@functools.cache
def _read_symbols(table: str, architecture: str) -> Mapping[str, frozenset[str]]:
    content = read_committed("libraries", "windows", f"{table}.json.gz")
    ordinals = range(1, content["highest_ordinal"] + 1)
    symbols = {f"#{ordinal}": _UNVERSIONED for ordinal in ordinals}
    for architectures, names in content["groups"]:
        if architecture in architectures.split(" "):
            symbols.update(dict.fromkeys(names.split(" "), _UNVERSIONED))
    return symbols


@functools.cache
def _content() -> Any:
    return read_committed("windows.json.gz")
