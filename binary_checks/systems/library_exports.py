"""Finds what a library of the target system exports."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from binary_checks.model.system import Policy, SystemLibrary
from binary_checks.systems.committed import list_committed, read_committed

# The parts of glibc whose symbols wandered to libc.so.6, most in 2.34, some long before
# (nanosleep, clock_gettime). An old object names the old place; ld.so looks in all of them.
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


def system_library(soname: str, *, architecture: str, policy: Policy) -> SystemLibrary | None:
    """Find what the system's ``soname`` exports, over all releases; None without export data.

    libpthread.so.0, libdl.so.2 and their like answer for libc.so.6 too, which they load and which
    has what was once theirs; the version nodes remain their own, for ld.so asks those by file.
    """
    libc, name = _place(soname, policy)
    # The name comes from a package: it is looked up in a list before it becomes part of a path.
    if f"{name}.json.gz" not in _list_tables(libc):
        return None
    return _read_library(libc, name, soname, architecture)


def _place(soname: str, policy: Policy) -> tuple[str, str]:
    """Find the table of a soname: its folder and its name there."""
    # libz.so.1 is the one other library that a musllinux policy lists: the same zlib.
    if policy.libc != "musl" or soname == "libz.so.1":
        return "glibc", soname
    # musl's libc is its loader: one file under two names, which differ by architecture.
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
    # Names are grouped by their versions, so that thousands of them share a few sets.
    for by_architecture, names in content["groups"]:
        nodes = by_architecture.get(architecture)
        if nodes is not None:
            symbols.update(dict.fromkeys(names.split(" "), frozenset(nodes.split(" "))))
    for symbol, nodes in _read_moved(name, architecture).items():
        symbols[symbol] = nodes | symbols[symbol] if symbol in symbols else nodes
    return SystemLibrary(soname=soname, symbols=symbols, versions=frozenset(versions.split()))


def _read_moved(name: str, architecture: str) -> Mapping[str, frozenset[str]]:
    """Read the symbols of libc.so.6 where ``name`` once had some of them."""
    if name not in _MOVED_TO_LIBC:
        return {}
    libc = _read_library("glibc", "libc.so.6", "libc.so.6", architecture)
    return libc.symbols if libc else {}
