"""Walks through a ROCm bundle of code objects: the targets that its table names.

A bundle that is compressed as a whole is unpacked as far as its table, if zlib did it; what zstd
did stays unknown, since Python before 3.14 cannot undo it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from binary_checks.model import DeviceFault, DeviceKind, DeviceTarget
from binary_checks.objects.device_walk import NEAR, Ask, Container, Tally, Walk, share, unknown

MAGIC: Final = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED_MAGIC: Final = b"CCOB"

_COUNT = Struct("<24sQ")
_ROW = Struct("<QQQ")  # offset in the bundle, size, length of the triple behind this
_MOST_ROWS = 4096  # real ones have one for each target, and one for the host
_LONGEST_TRIPLE = 256
_COMPRESSED = Struct("<4sHH")  # magic, version, method
_SIZES = {
    1: (Struct("<8x I 8x"), False),
    2: (Struct("<8x II 8x"), True),
    3: (Struct("<8x QQ 8x"), True),
}
"""By version: the rest of the head, and whether it begins with the size of the whole."""
_ZLIB = 0
_METHODS = {_ZLIB: "zlib", 1: "zstd"}
_FETCHED = 1 << 14  # bytes of a compressed bundle that its table is looked for in
_UNPACKED = 1 << 16


class _Row(NamedTuple):
    offset: int
    size: int
    triple: str

    @property
    def target(self) -> DeviceTarget | None:
        """For what it is; None for the host's own part, which is empty."""
        system, _, architecture = self.triple.partition("--")
        if system.startswith("host"):
            return None
        amd = "amdgcn" in system
        return DeviceTarget(
            kind=DeviceKind.AMDGPU if amd else DeviceKind.UNKNOWN, architecture=architecture
        )


def walk_bundle(start: int, end: int) -> Walk:
    """Walk through the bundle at ``start``; its section ends at ``end``."""
    at = start + _COUNT.size
    if at > end:
        yield DeviceFault(offset=start, reason="a bundle's head is cut off")
        return end
    magic, count = _COUNT.unpack_from((yield Ask(start, min(NEAR, end - start))))
    if magic != MAGIC or count > _MOST_ROWS:
        yield DeviceFault(offset=start, reason=f"a bundle claims {count} code objects")
        return at
    rows: list[_Row] = []
    for _ in range(count):
        if at + _ROW.size > end:
            break
        offset, size, length = _ROW.unpack((yield Ask(at, _ROW.size)))
        at += _ROW.size
        if length > _LONGEST_TRIPLE or at + length > end or start + offset + size > end:
            break
        triple = (yield Ask(at, length)) if length else b""
        at += length
        rows.append(_Row(offset, size, triple.decode("ascii", "replace")))
    if len(rows) < count:
        reason = f"entry {len(rows) + 1} of a bundle reaches beyond the end"
        yield DeviceFault(offset=start, reason=reason)
    yield Container(start, _add_up(rows, [row.size for row in rows], 0).codes())
    return max([at, *(start + row.offset + row.size for row in rows)])


def walk_compressed(start: int, end: int) -> Walk:
    """Walk through the compressed bundle at ``start``, as far as its table."""
    at = start + _COMPRESSED.size
    if at > end:
        yield DeviceFault(offset=start, reason="a compressed bundle's head is cut off")
        return end
    head = yield Ask(start, min(NEAR, end - start))
    _, version, method = _COMPRESSED.unpack_from(head)
    layout, sized = _SIZES.get(version, (_COMPRESSED, False))
    if version not in _SIZES or start + layout.size > end:
        yield unknown(start, f"a compressed bundle of version {version}", 0, 1)
        return at
    size = layout.unpack_from(head)[0] if sized else end - start
    at = start + layout.size
    stop = start + size
    if not at <= stop <= end:
        reason = f"a compressed bundle of {size} bytes begins where {end - start} are left"
        yield DeviceFault(offset=start, reason=reason)
        stop = end
    rows: list[_Row] = []
    if method == _ZLIB and stop > at:
        rows = _read_table(_unpack((yield Ask(at, min(stop - at, _FETCHED)))))
    if rows:
        sizes = share(stop - start, (row.size for row in rows))
        yield Container(start, _add_up(rows, sizes, 1).codes())
    else:
        how = _METHODS.get(method, f"method {method}")
        yield unknown(start, f"a bundle compressed as a whole ({how})", stop - start, 1)
    return stop if sized else at


def _unpack(packed: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(packed, _UNPACKED)
    except zlib.error:
        return b""


def _read_table(head: bytes) -> list[_Row]:
    """The table at the start of a bundle; nothing where it is not there in full."""
    if len(head) < _COUNT.size or not head.startswith(MAGIC):
        return []
    _, count = _COUNT.unpack_from(head)
    rows: list[_Row] = []
    at = _COUNT.size
    for _ in range(min(count, _MOST_ROWS)):
        if at + _ROW.size > len(head):
            return []
        offset, size, length = _ROW.unpack_from(head, at)
        at += _ROW.size + length
        if length > _LONGEST_TRIPLE or at > len(head):
            return []
        rows.append(_Row(offset, size, head[at - length : at].decode("ascii", "replace")))
    return rows if len(rows) == count else []


def _add_up(rows: Iterable[_Row], sizes: Iterable[int], compressed: int) -> Tally:
    tally = Tally()
    for row, size in zip(rows, sizes, strict=True):
        if row.target is not None:
            tally.add(row.target, 1, size, compressed)
    return tally
