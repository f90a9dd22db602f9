"""Reads the symbol versions an ELF file needs of others (DT_VERNEED) and defines (DT_VERDEF)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.model import NeededVersion
from binary_checks.objects.elf_dynamic import (
    DT_VERDEF,
    DT_VERDEFNUM,
    DT_VERNEED,
    DT_VERNEEDNUM,
    Dynamic,
)
from binary_checks.objects.elf_segments import LoadedImage

_VER_FLG_BASE = 1
_VER_FLG_WEAK = 2
_MOST = 0x7FFF  # version indices have 15 bits


class Versions(NamedTuple):
    """The version nodes of one object."""

    needed: tuple[NeededVersion, ...] = ()
    defined: tuple[str, ...] = ()
    by_index: dict[int, tuple[str, str]] = {}  # noqa: RUF012 - never changed; versym -> (library, node)


def read_versions(image: LoadedImage, dynamic: Dynamic) -> Versions:
    """Read both tables. Raises MalformedError."""
    needed = tuple(_read_needed(image, dynamic))
    defined = tuple(_read_defined(image, dynamic))
    by_index = {index: (item.library, item.version) for index, item in needed}
    # The base node stands for the library itself: a symbol bound to it has no version.
    by_index |= {index: ("", "" if base else name) for index, name, base in defined}
    return Versions(
        needed=tuple(item for _, item in needed),
        defined=tuple(name for _, name, base in defined if not base),
        by_index=by_index,
    )


def _read_needed(image: LoadedImage, dynamic: Dynamic) -> Iterator[tuple[int, NeededVersion]]:
    """Every Vernaux of every Verneed, with its version index."""
    need, auxiliary = image.header.struct("HHIII"), image.header.struct("IHHII")
    files = _chain(image, need, dynamic, (DT_VERNEED, DT_VERNEEDNUM), "DT_VERNEED")
    total = 0
    for file_address, (_, count, file, first, _) in files:
        library = dynamic.text(file)
        total += count
        if total > _MOST:  # many records may share one chain: the product must stay bounded
            raise MalformedError(f"DT_VERNEED claims more than {_MOST} versions")
        for _, row in _follow(image, auxiliary, file_address + first, count, "a Vernaux"):
            _, flags, index, name, _ = row
            weak = bool(flags & _VER_FLG_WEAK)
            yield (
                index & 0x7FFF,
                NeededVersion(library=library, version=dynamic.text(name), weak=weak),
            )


def _read_defined(image: LoadedImage, dynamic: Dynamic) -> Iterator[tuple[int, str, bool]]:
    """Index, name and whether it is the base node, of every Verdef."""
    definition, auxiliary = image.header.struct("HHHHIII"), image.header.struct("II")
    nodes = _chain(image, definition, dynamic, (DT_VERDEF, DT_VERDEFNUM), "DT_VERDEF")
    for address, (_, flags, index, _, _, first, _) in nodes:
        # The first Verdaux is the node's name; those after it are its parents.
        name, _ = image.unpack(auxiliary, address + first, "a Verdaux")
        yield index & 0x7FFF, dynamic.text(name), bool(flags & _VER_FLG_BASE)


def _chain(
    image: LoadedImage, layout: Any, dynamic: Dynamic, tags: tuple[int, int], what: str
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    if tags[0] not in dynamic:
        return iter(())
    return _follow(image, layout, dynamic.value(tags[0]), dynamic.value(tags[1]), what)


def _follow(
    image: LoadedImage, layout: Any, address: int, count: int, what: str
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Address and fields of each record; the last field leads to the next one."""
    if count > _MOST:
        raise MalformedError(f"{what} claims {count} entries")
    for remaining in range(count - 1, -1, -1):
        fields = image.unpack(layout, address, what)
        yield address, fields
        if remaining and not fields[-1]:
            raise MalformedError(f"{what} ends {remaining} entries before its count")
        address += fields[-1]
