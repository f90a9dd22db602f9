"""Walks through a ROCm bundle of code objects: the targets that its table names.

A bundle that is compressed as a whole is unpacked as far as its table, if zlib did it. Of one that
zstd compressed no more is said than that it is there and how large: Python before 3.14 cannot undo
it, and no answer may hang on the Python that asks.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterable
from struct import Struct
from typing import Final, NamedTuple

from binary_checks.model import DeviceFault, DeviceKind
from binary_checks.objects.device.walk import (
    NEAR,
    Ask,
    Container,
    ContainerWalk,
    Rest,
    Step,
    Sum,
    Tally,
    Target,
    share,
    unknown,
)

MAGIC: Final = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED_MAGIC: Final = b"CCOB"

_COUNT = Struct("<24sQ")
_ROW = Struct("<QQQ")  # offset in the bundle, size, length of the triple behind this
_MOST_ROWS = 4096  # real ones have one for each target, and one for the host
_LONGEST_TRIPLE = 256  # real ones have some fifty letters
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
_PAGE = 4096  # bytes to which linkers align bundles, in the file as in memory
_SOME: Final[Target] = (DeviceKind.AMDGPU.value, "")


class _Row(NamedTuple):
    offset: int
    size: int
    triple: str

    @property
    def target(self) -> Target | None:
        """For what it is; None for the host's own part, which is empty."""
        system, _, architecture = self.triple.partition("--")
        if system.startswith("host"):
            return None
        kind = DeviceKind.AMDGPU if "amdgcn" in system else DeviceKind.UNKNOWN
        return kind.value, architecture


def walk_bundle(start: int, end: int) -> ContainerWalk:
    """Walk through the bundle at ``start``; its section ends at ``end``."""
    at = start + _COUNT.size
    if at > end:
        yield DeviceFault(offset=start, reason="a bundle's head is cut off")
        return end, False
    magic, count = _COUNT.unpack_from((yield Ask(start, min(NEAR, end - start))))
    if magic != MAGIC:
        yield DeviceFault(offset=start, reason="what begins as a bundle does not go on as one")
        return start + len(MAGIC), False
    if count * _ROW.size > end - at:
        reason = f"a bundle claims {count} code objects where {end - at} bytes are left"
        yield DeviceFault(offset=start, reason=reason)
        return at, False
    if count > _MOST_ROWS:
        reason = f"a bundle has {count} code objects; at most {_MOST_ROWS} are read"
        yield Rest(start, reason, too_large=True)
        return at, False
    rows: list[_Row] = []
    reason = ""
    for _ in range(count):
        if at + _ROW.size > end:
            break
        offset, size, length = _ROW.unpack((yield Ask(at, _ROW.size)))
        at += _ROW.size
        if at + length > end or start + offset + size > end:
            break
        if length > _LONGEST_TRIPLE:
            reason = f"a target of {length} letters; at most {_LONGEST_TRIPLE} are read"
            triple = b""
        else:
            triple = (yield Ask(at, length)) if length else b""
        at += length
        rows.append(_Row(offset, size, triple.decode("ascii", "replace")))
    if len(rows) < count:
        fault = f"entry {len(rows) + 1} of a bundle reaches beyond the end"
        yield DeviceFault(offset=start, reason=fault)
    sums = _add_up(rows, [row.size for row in rows], 0)
    yield Container(start, sums, reason, too_large=bool(reason))
    return max([at, *(start + row.offset + row.size for row in rows)]), len(rows) == count


def walk_compressed(start: int, end: int) -> ContainerWalk:
    """Walk through the compressed bundle at ``start``, as far as its table."""
    at = start + _COMPRESSED.size
    if at > end:
        yield DeviceFault(offset=start, reason="a compressed bundle's head is cut off")
        return end, False
    head = yield Ask(start, min(NEAR, end - start))
    _, version, method = _COMPRESSED.unpack_from(head)
    if version not in _SIZES:
        yield unknown(start, f"not read: a compressed bundle of version {version}")
        return at, False
    layout, sized = _SIZES[version]
    at = start + layout.size
    if at > end:
        yield DeviceFault(offset=start, reason="a compressed bundle's head is cut off")
        return end, False
    stop = start + layout.unpack_from(head)[0] if sized else end
    if not at <= stop <= end:
        reason = f"a compressed bundle of {stop - start} bytes begins where {end - start} are left"
        yield DeviceFault(offset=start, reason=reason)
        stop = end
    rows: list[_Row] = []
    if method == _ZLIB and stop > at:
        unpacked = _unpack((yield Ask(at, min(stop - at, _FETCHED))))
        if not unpacked.startswith(MAGIC):
            reason = "what zlib is said to have compressed does not unpack to a bundle"
            yield DeviceFault(offset=start, reason=reason)
        rows = _read_table(unpacked)
    if not sized:
        stop = yield from _find_page(at, end)
    if rows:
        sizes = share(stop - start, (row.size for row in rows))
        yield Container(start, _add_up(rows, sizes, 1))
    else:
        how = _METHODS.get(method, f"method {method}")
        reason = f"not read: a bundle of code for AMD's GPUs, compressed as a whole ({how})"
        yield Container(start, (Sum(_SOME, 1, stop - start, 1),), reason)
    return stop, True


def _find_page(at: int, end: int) -> Generator[Step, bytes, int]:
    """Where the next bundle begins behind one that does not tell its size; else the end."""
    for page in range(-(-at // _PAGE) * _PAGE, end - _COMPRESSED.size, _PAGE):
        if (yield Ask(page, len(COMPRESSED_MAGIC))) in (COMPRESSED_MAGIC, MAGIC[:4]):
            return page
    return end


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


def _add_up(rows: Iterable[_Row], sizes: Iterable[int], compressed: int) -> tuple[Sum, ...]:
    tally = Tally()
    for row, size in zip(rows, sizes, strict=True):
        if row.target is not None:
            tally.add(row.target, 1, size, compressed)
    return tally.sums()
