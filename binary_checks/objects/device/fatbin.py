"""Walks through a CUDA container: the head of each of its entries, and nothing decompressed.

NVIDIA documents neither; the layout is what nvcc writes, and what cuobjdump lists of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from binary_checks.model import DeviceFault, DeviceKind
from binary_checks.objects.device.walk import (
    NEAR,
    UNKNOWN,
    Ask,
    Container,
    ContainerWalk,
    Part,
    Stored,
    Sum,
    Tally,
    Target,
    share,
    unknown,
)

MAGIC: Final = b"\x50\xed\x55\xba"
OLD_MAGIC: Final = b"\x01\x5a\xe5\x1e"  # before CUDA 4

_CONTAINER = Struct("<4sHHQ")  # magic, version, size of this head, bytes behind it
# Kind, version, size of this head, size of the payload, of that used when compressed, offset of
# the options, minor and major version of the code, architecture, name (2), flags, unpacked size.
_ENTRY = Struct("<HHIQIIHHIIIQ8xQ")
_GROUP = Struct("<II")  # of entries compressed together: their number, and their table's size
_LONGEST_HEAD = 1 << 16  # real ones have some hundred bytes, that of a group 64 for each part
_HIGHEST_ARCHITECTURE = 9999

_KINDS = {1: DeviceKind.PTX, 2: DeviceKind.SASS, 8: DeviceKind.LTO}
_GROUP_KIND = 0x100  # nvcc --concat
_ENTRY_VERSION = 0x101
OLD_LZ: Final = 0x1000  # NVIDIA's own, before CUDA 11.x
LZ4: Final = 0x2000  # one raw block
ZSTANDARD: Final = 0x8000  # one frame
SCRAMBLED: Final = 0x10000  # of code for the device linker that is compressed
_COMPRESSED = OLD_LZ | LZ4 | ZSTANDARD
_SUFFIXES = {0: "", 0x100000: "a", 0x200000: "f"}
_SUFFIX_MASK = 0x300000


class _Entry(NamedTuple):
    kind: int
    version: int
    head_size: int  # in the table of a group: the offset of the part once unpacked
    size: int
    packed_size: int
    options: int
    minor: int
    major: int
    architecture: int
    name: int
    name_size: int
    flags: int
    unpacked_size: int


@lru_cache(maxsize=1024)
def _name_target(kind: int, version: int, architecture: int, variant: int) -> Target:
    """For what an entry is; the architecture's suffix stands in the flags alone."""
    if version != _ENTRY_VERSION or not 0 < architecture <= _HIGHEST_ARCHITECTURE:
        return UNKNOWN
    suffix = _SUFFIXES.get(variant, "?")
    return _KINDS.get(kind, DeviceKind.UNKNOWN).value, f"sm_{architecture}{suffix}"


def walk_fatbin(start: int, end: int) -> ContainerWalk:
    """Walk through the container at ``start``; its section ends at ``end``."""
    head = yield Ask(start, min(NEAR, end - start))
    magic, version, head_size, size_of_all = _CONTAINER.unpack_from(head)
    which = _name_unknown(magic, version, head_size)
    if which:
        yield unknown(start, f"a container of {which}")
        return start + _CONTAINER.size, False
    first, stop = start + head_size, start + head_size + size_of_all
    if stop > end:
        left = max(end - first, 0)
        yield DeviceFault(
            offset=start, reason=f"a container of {size_of_all} bytes begins where {left} are left"
        )
        stop = end
    tally = Tally()
    at, doubt = first, ""
    while at < stop:
        if at + _ENTRY.size > stop:
            reason = f"a container ends {stop - at} bytes after the start of an entry"
            yield DeviceFault(offset=at, reason=reason)
            break
        entry = _Entry._make(_ENTRY.unpack((yield Ask(at, _ENTRY.size))))
        size = entry.head_size + entry.size
        if entry.head_size < _ENTRY.size or size > stop - at:
            reason = (
                f"an entry claims {entry.head_size} + {entry.size} bytes where"
                f" {stop - at} are left of its container"
            )
            yield DeviceFault(offset=at, reason=reason)
            break
        if entry.kind == _GROUP_KIND and entry.version == _ENTRY_VERSION:
            length = min(entry.head_size, _LONGEST_HEAD)
            head = yield Ask(at, length)
            found = _count_group(head, entry, size, tally)
            yield _store(at, entry, [_part_of(each) for each in found] or [Part(UNKNOWN, 0, None)])
            if length < entry.head_size and not found:
                doubt = f"a head of {entry.head_size} bytes; at most {_LONGEST_HEAD} are read"
        else:
            _count(entry, size, entry.flags & _COMPRESSED or entry.unpacked_size, tally)
            yield _store(at, entry, [Part(_target_of(entry), 0, None)])
        at += size
    sums = tally.sums()
    yield Container(start, sums, doubt or _doubt(sums), too_large=bool(doubt))
    # Where not even the first entry makes sense, the size in the head may be as wrong.
    known = at > first or not size_of_all
    return (stop if known else first), known


def _name_unknown(magic: bytes, version: int, head_size: int) -> str:
    """What is not known of a container, "" for nothing."""
    if magic != MAGIC:
        return "an old format"
    if version != 1:
        return f"version {version}"
    return "" if _CONTAINER.size <= head_size <= NEAR else f"a head of {head_size} bytes"


def _target_of(entry: _Entry) -> Target:
    variant = entry.flags & _SUFFIX_MASK
    return _name_target(entry.kind, entry.version, entry.architecture, variant)


def _count(entry: _Entry, size: int, compressed: int, tally: Tally) -> None:
    tally.add(_target_of(entry), 1, size, 1 if compressed else 0)


def _part_of(row: _Entry) -> Part:
    """A part of a group; its row has another meaning for the size of a head."""
    return Part(_target_of(row), row.head_size, row.size)


def _store(at: int, entry: _Entry, parts: Sequence[Part]) -> Stored:
    """Where an entry lies. What is not compressed has all that it claims, padding too."""
    compressed = entry.flags & _COMPRESSED
    size = entry.packed_size if compressed else entry.size
    unpacked = entry.unpacked_size if compressed else None
    return Stored(
        at, at + entry.head_size, min(size, entry.size), entry.flags, unpacked, tuple(parts)
    )


def _count_group(head: bytes, entry: _Entry, size: int, tally: Tally) -> list[_Entry]:
    """Count the parts of an entry in which several are compressed together; returns these."""
    parts = _read_group(head, entry.options)
    for part, share_of_size in zip(parts, share(size, (part.size for part in parts)), strict=True):
        _count(part, share_of_size, 1, tally)
    if not parts:
        _count(entry, size, entry.flags & _COMPRESSED or entry.unpacked_size, tally)
    return parts


def _read_group(head: bytes, options: int) -> list[_Entry]:
    """The parts of an entry in which several are compressed together; none where not to be told."""
    if not _ENTRY.size <= options <= len(head) - _GROUP.size:
        return []
    count, size = _GROUP.unpack_from(head, options)
    start = options + _GROUP.size
    if size != _GROUP.size + count * _ENTRY.size or start + count * _ENTRY.size > len(head):
        return []
    table = head[start : start + count * _ENTRY.size]
    return [_Entry(*row) for row in _ENTRY.iter_unpack(table)]


def _doubt(sums: Iterable[Sum]) -> str:
    found = any(sum_.target[0] == DeviceKind.UNKNOWN.value for sum_ in sums)
    return "entries of an unknown kind or version" if found else ""
