"""Reads the symbol versions an ELF file needs of others (DT_VERNEED) and defines (DT_VERDEF)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.model import NeededVersion
from binary_checks.objects.elf.dynamic import (
    DT_NEEDED,
    DT_VERDEF,
    DT_VERDEFNUM,
    DT_VERNEED,
    DT_VERNEEDNUM,
    Dynamic,
)
from binary_checks.objects.elf.hash_tables import hash_sysv
from binary_checks.objects.elf.image import MappedImage

_VER_FLG_BASE = 1
_VER_FLG_WEAK = 2
_MOST = 0x7FFF  # version indices have 15 bits


class Versions(NamedTuple):
    """The version nodes of one object."""

    needed: tuple[NeededVersion, ...] = ()
    defined: tuple[str, ...] = ()
    by_index: dict[int, tuple[str, str]] = {}  # noqa: RUF012 - never changed; versym -> (library, node)
    own: frozenset[int] = frozenset()  # the indices of what it defines itself
    faults: tuple[str, ...] = ()  # records by which a loader finds no version, or another one


def read_versions(image: MappedImage, dynamic: Dynamic) -> Versions:
    """Read both tables. Raises MalformedError."""
    faults: dict[str, None] = {}
    needed = tuple(_read_needed(image, dynamic, faults))
    defined = tuple(_read_defined(image, dynamic, faults))
    by_index = {index: (item.library, item.version) for index, item in needed}
    # The base node stands for the library itself: a symbol bound to it has no version.
    by_index |= {index: ("", "" if base else name) for index, name, base in defined}
    return Versions(
        needed=tuple(item for _, item in needed),
        defined=tuple(name for _, name, base in defined if not base),
        by_index=by_index,
        own=frozenset(index for index, _, base in defined if not base),
        faults=tuple(faults),
    )


def _read_needed(
    image: MappedImage, dynamic: Dynamic, faults: dict[str, None]
) -> Iterator[tuple[int, NeededVersion]]:
    """Every Vernaux of every Verneed, with its version index."""
    need, auxiliary = image.header.struct("HHIII"), image.header.struct("IHHII")
    files = _chain(image, need, dynamic, (DT_VERNEED, DT_VERNEEDNUM), "DT_VERNEED")
    known, total = frozenset(dynamic.texts(DT_NEEDED)), 0
    for file_address, (revision, count, file, first, _) in files:
        library = dynamic.text(file)
        faults.update(_judge_revision("Verneed", revision))
        if library not in known:
            faults[
                f"needs versions of {library}, which is not among its DT_NEEDED: glibc's loader "
                "ends the process where nothing else has loaded it"
            ] = None
        total += count
        if total > _MOST:  # many records may share one chain: the product must stay bounded
            raise MalformedError(f"DT_VERNEED claims more than {_MOST} versions")
        for _, row in _follow(image, auxiliary, file_address + first, count, "a Vernaux"):
            hashed, flags, index, name, _ = row
            weak, version = bool(flags & _VER_FLG_WEAK), dynamic.text(name)
            faults.update(_judge_hash("needs", version, hashed))
            yield index & 0x7FFF, NeededVersion(library=library, version=version, weak=weak)


def _read_defined(
    image: MappedImage, dynamic: Dynamic, faults: dict[str, None]
) -> Iterator[tuple[int, str, bool]]:
    """Index, name and whether it is the base node, of every Verdef."""
    definition, auxiliary = image.header.struct("HHHHIII"), image.header.struct("II")
    nodes = _chain(image, definition, dynamic, (DT_VERDEF, DT_VERDEFNUM), "DT_VERDEF")
    for address, (revision, flags, index, _, hashed, first, _) in nodes:
        # The first Verdaux is the node's name; those after it are its parents.
        place, _ = image.unpack(auxiliary, address + first, "a Verdaux")
        name, is_base = dynamic.text(place), bool(flags & _VER_FLG_BASE)
        faults.update(_judge_revision("Verdef", revision))
        if not is_base:
            faults.update(_judge_hash("defines", name, hashed))
        yield index & 0x7FFF, name, is_base


def _judge_revision(what: str, revision: int) -> Iterator[tuple[str, None]]:
    if revision != 1:
        yield f"has a {what} record of revision {revision}: glibc's loader knows only 1", None


def _judge_hash(verb: str, version: str, hashed: int) -> Iterator[tuple[str, None]]:
    """A loader compares the hashes before the names."""
    if hashed != hash_sysv(version.encode("utf-8", "surrogateescape")):
        yield f"{verb} version {version} under a wrong hash, by which no loader finds it", None


def _chain(
    image: MappedImage, layout: Any, dynamic: Dynamic, tags: tuple[int, int], what: str
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    if tags[0] not in dynamic:
        return iter(())
    return _follow(image, layout, dynamic.value(tags[0]), dynamic.value(tags[1]), what)


def _follow(
    image: MappedImage, layout: Any, address: int, count: int, what: str
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Address and fields of each record; the last field leads to the next one."""
    if count > _MOST:
        raise MalformedError(f"{what} claims {count} entries")
    for remaining in range(count - 1, -1, -1):
        fields = image.unpack(layout, address, what)
        yield address, fields
        if remaining and not fields[-1]:
            raise MalformedError(f"{what} ends {remaining} entries before its count")
        if not remaining and fields[-1]:  # glibc's loader follows them, whatever the count says
            raise MalformedError(f"{what} continues past its count")
        address += fields[-1]
