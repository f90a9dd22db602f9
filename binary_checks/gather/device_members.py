"""Opens a package's tree once more for the device code in its objects."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import BinaryIO

from binary_checks.errors import (
    BrokenDataError,
    GatherError,
    MalformedError,
    PackageError,
    Unavailable,
)
from binary_checks.gather.member_contents import find_entry
from binary_checks.knowledge.device_containers import Carrier
from binary_checks.model import Package
from binary_checks.model.protocols import ByteSource, Tree, TreeEntry


def open_carriers(
    package: Package, carriers: Iterable[Carrier], open_tree: Callable[[], Tree]
) -> Iterator[tuple[Carrier, ByteSource | Unavailable]]:
    """Open the package's tree for some objects and their bytes, each to be read before the next.

    They come in any order. One after the other is copied to one file, which is removed in the end.
    Raises PackageError where the package cannot be opened again, GatherError where there is no
    room.
    """
    try:
        with (
            tempfile.TemporaryFile(prefix="binary_checks-") as copy,
            closing(open_tree()) as tree,
        ):
            yield from _open_all(package, tree, {item.path: item for item in carriers}, copy)
    except OSError as error:
        reason = f"its device code cannot be read once more: {error.strerror or error}"
        raise GatherError(f"{package.file_name}: {reason}") from None


def _open_all(
    package: Package, tree: Tree, carriers: dict[str, Carrier], copy: BinaryIO
) -> Iterator[tuple[Carrier, ByteSource | Unavailable]]:
    waiting: dict[int, tuple[Carrier, TreeEntry]] = {}
    left = dict(carriers)
    for member in package.members:
        if member.path in left and (entry := find_entry(tree, member, package.layout)) is not None:
            waiting[id(entry)] = left.pop(member.path), entry
    yield from ((item, Unavailable("it is not there any more")) for item in left.values())
    reason = "it is not there any more"
    try:
        for entry, pieces in tree.contents([entry for _, entry in waiting.values()]):
            item, _ = waiting.pop(id(entry))
            yield item, _copy(pieces, copy)
    except PackageError as error:
        reason = f"it cannot be read again: {error}"
    yield from ((item, Unavailable(reason)) for item, _ in waiting.values())


def _copy(pieces: Iterator[bytes], copy: BinaryIO) -> ByteSource | Unavailable:
    copy.seek(0)
    copy.truncate()
    try:
        copy.writelines(pieces)
    except (BrokenDataError, PackageError) as error:
        return Unavailable(f"it cannot be read again: {error}")
    return _CopiedBytes(copy)


class _CopiedBytes:
    """The bytes of the file as a ByteSource."""

    def __init__(self, copy: BinaryIO) -> None:
        self._copy = copy
        self.size = copy.seek(0, os.SEEK_END)

    def read(self, offset: int, length: int) -> bytes:
        """Exactly length bytes from offset; raises MalformedError when the file ends before."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise MalformedError("the file ends before", self.size)
        self._copy.seek(offset)
        return self._copy.read(length)
