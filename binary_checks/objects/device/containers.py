"""Walk through containers of device code: CUDA's fat binaries and ROCm's offload bundles."""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from binary_checks.model import DeviceFault, DeviceKind
from binary_checks.objects.byte_source import LimitedSource

# The results of a walk.

Target = tuple[str, str]
"""Kind and architecture of a DeviceTarget; a plain tuple, since large libraries have thousands."""
UNKNOWN: Final[Target] = (DeviceKind.UNKNOWN.value, "")


class Sum(NamedTuple):
    """The total of all code for one target."""

    target: Target
    entries: int
    bytes: int
    compressed: int  # number of compressed entries


class Container(NamedTuple):
    """One container, as far as it could be read."""

    offset: int
    sums: tuple[Sum, ...]  # sorted by target, one for each
    reason: str = ""  # why some targets are unknown
    too_large: bool = False  # whether a limit was exceeded


class Part(NamedTuple):
    """One piece of code in the unpacked bytes of an entry."""

    target: Target
    start: int  # bytes from the start of the unpacked entry
    size: int | None  # bytes; None: the whole entry


class Stored(NamedTuple):
    """An entry of a CUDA container: the location of its bytes, and the parts they unpack to."""

    offset: int  # offset of the head, in bytes from the start of the file
    start: int  # offset of the payload, in bytes from the start of the file
    size: int  # bytes of the payload without padding
    flags: int
    unpacked_size: int | None  # from its head; None if it is not compressed
    parts: tuple[Part, ...]  # several if they are compressed together


class Rest(NamedTuple):
    """The part of a file that was not read, for a reason that is not the file's fault."""

    # Its beginning, in bytes from the start of the file; it extends to the end of the device code
    offset: int
    reason: str
    too_large: bool = False  # whether a limit was exceeded


NEAR: Final = 64
"""Bytes read at the start of a container, and searched after one."""

Step = Stored | Container | Rest | DeviceFault
ContainerWalk = Generator[Step, None, tuple[int, bool]]
"""A walk through one container. It returns the offset of the following data, and whether
that offset is certain. After a container of an unknown format, or with a fault, it is not.
"""


class Tally:
    """Sums up code by target."""

    def __init__(self) -> None:
        self._sums: dict[Target, tuple[int, int, int]] = {}

    def add(self, target: Target, count: int, size: int, compressed: int) -> None:
        """Add entries of a target: how many there are, their bytes, and how many are compressed."""
        before = self._sums.get(target, (0, 0, 0))
        self._sums[target] = (before[0] + count, before[1] + size, before[2] + compressed)

    def sums(self) -> tuple[Sum, ...]:
        """Return the sums, sorted by kind and architecture."""
        return tuple(Sum(target, *sums) for target, sums in sorted(self._sums.items()))


def unknown(offset: int, reason: str) -> Container:
    """Return a container with a known offset and unknown contents."""
    return Container(offset, (Sum(UNKNOWN, 1, 0, 0),), reason)


def share(size: int, weights: Iterable[int]) -> list[int]:
    """Split the size of jointly compressed parts in proportion to their unpacked sizes."""
    shares, left = [], size
    parts = list(weights)
    rest = sum(parts)
    for part in parts:
        taken = left * part // rest if rest else 0
        shares.append(taken)
        left, rest = left - taken, rest - part
    return shares


# CUDA's fat binaries: the heads of entries, without decompressing.
#
# NVIDIA documents neither containers nor entries. The layouts come from files that nvcc writes,
# compared with cuobjdump's lists. Numbers are little-endian.

FATBIN_MAGIC: Final = b"\x50\xed\x55\xba"
OLD_FATBIN_MAGIC: Final = b"\x01\x5a\xe5\x1e"  # before CUDA 4

_CONTAINER = Struct("<4sHHQ")  # magic, version, size of this head, size of all entries, in bytes
# Kind, version, size of this head, size of the payload, size of the compressed payload, offset of
# the options, minor and major version of the code, architecture, offset and size of the name,
# flags, unpacked size. Sizes and offsets are in bytes, offsets from the start of this head.
_ENTRY = Struct("<HHIQIIHHIIIQ8xQ")
_GROUP = Struct("<II")  # entries compressed together: their number, and the bytes of their table
_LONGEST_HEAD = 1 << 16  # bytes; real heads have some hundred, and a group's 64 for each part
_HIGHEST_ARCHITECTURE = 9999  # the number in sm_90 is 90; above 9999, the target is unknown

_KINDS = {1: DeviceKind.PTX, 2: DeviceKind.SASS, 8: DeviceKind.LTO}
_GROUP_KIND = 0x100  # written by nvcc --concat
_ENTRY_VERSION = 0x101
OLD_LZ: Final = 0x1000  # NVIDIA's own method, before CUDA 11.4
LZ4: Final = 0x2000  # one raw block
ZSTANDARD: Final = 0x8000  # one frame
SCRAMBLED: Final = 0x10000  # compressed code for the device linker
_COMPRESSED_ENTRY = OLD_LZ | LZ4 | ZSTANDARD
# Two bits of an entry's flags: code for one architecture only (sm_90a), or for a family (sm_100f).
_SUFFIXES = {0: "", 0x100000: "a", 0x200000: "f"}
_SUFFIX_MASK = 0x300000  # both bits; no suffix is known for an entry that has both


class _Entry(NamedTuple):
    kind: int
    version: int
    head_size: int  # in the table of a group: offset of the part in the unpacked bytes
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
    """Return the target of an entry; the suffix of its architecture is only in the flags."""
    if version != _ENTRY_VERSION or not 0 < architecture <= _HIGHEST_ARCHITECTURE:
        return UNKNOWN
    suffix = _SUFFIXES.get(variant, "?")
    return _KINDS.get(kind, DeviceKind.UNKNOWN).value, f"sm_{architecture}{suffix}"


def walk_fatbin(source: LimitedSource, start: int, end: int) -> ContainerWalk:
    """Walk through the container at ``start`` in a section that ends at ``end``."""
    head = source.read(start, min(NEAR, end - start))
    magic, version, head_size, size_of_all = _CONTAINER.unpack_from(head)
    which = _name_unknown(magic, version, head_size)
    if which:
        yield unknown(start, f"a container of {which}")
        return start + _CONTAINER.size, False
    first, stop = start + head_size, start + head_size + size_of_all
    if stop > end:
        left = max(end - first, 0)
        yield DeviceFault(
            offset=start,
            reason=f"a container of {size_of_all} bytes begins, but only {left} are left",
        )
        stop = end
    tally = Tally()
    at, doubt = first, ""
    while at < stop:
        if at + _ENTRY.size > stop:
            reason = f"a container ends {stop - at} bytes after the start of an entry"
            yield DeviceFault(offset=at, reason=reason)
            break
        entry = _Entry._make(_ENTRY.unpack(source.read(at, _ENTRY.size)))
        size = entry.head_size + entry.size
        if entry.head_size < _ENTRY.size or size > stop - at:
            reason = (
                f"an entry claims {entry.head_size} + {entry.size} bytes, but"
                f" only {stop - at} are left of its container"
            )
            yield DeviceFault(offset=at, reason=reason)
            break
        if entry.kind == _GROUP_KIND and entry.version == _ENTRY_VERSION:
            length = min(entry.head_size, _LONGEST_HEAD)
            head = source.read(at, length)
            found = _count_group(head, entry, size, tally)
            # In the table of a group, head_size is the offset of a part.
            parts = [Part(_target_of(each), each.head_size, each.size) for each in found]
            yield _store(at, entry, parts or [Part(UNKNOWN, 0, None)])
            if length < entry.head_size and not found:
                doubt = f"a head of {entry.head_size} bytes; at most {_LONGEST_HEAD} are read"
        else:
            _count(entry, size, entry.flags & _COMPRESSED_ENTRY or entry.unpacked_size, tally)
            yield _store(at, entry, [Part(_target_of(entry), 0, None)])
        at += size
    sums = tally.sums()
    yield Container(start, sums, doubt or _doubt(sums), too_large=bool(doubt))
    # If the first entry is damaged, the size of all entries may also be wrong.
    known = at > first or not size_of_all
    return (stop if known else first), known


def _name_unknown(magic: bytes, version: int, head_size: int) -> str:
    """Return what is unknown about a container, "" for nothing."""
    if magic != FATBIN_MAGIC:
        return "an old format"
    if version != 1:
        return f"version {version}"
    return "" if _CONTAINER.size <= head_size <= NEAR else f"a head of {head_size} bytes"


def _target_of(entry: _Entry) -> Target:
    variant = entry.flags & _SUFFIX_MASK
    return _name_target(entry.kind, entry.version, entry.architecture, variant)


def _count(entry: _Entry, size: int, compressed: int, tally: Tally) -> None:
    tally.add(_target_of(entry), 1, size, 1 if compressed else 0)


def _store(at: int, entry: _Entry, parts: Sequence[Part]) -> Stored:
    """Return the location of an entry's bytes; an uncompressed entry's payload includes padding."""
    compressed = entry.flags & _COMPRESSED_ENTRY
    size = entry.packed_size if compressed else entry.size
    unpacked = entry.unpacked_size if compressed else None
    return Stored(
        at, at + entry.head_size, min(size, entry.size), entry.flags, unpacked, tuple(parts)
    )


def _count_group(head: bytes, entry: _Entry, size: int, tally: Tally) -> list[_Entry]:
    """Count the parts that are compressed together in one entry, and return them."""
    parts = _read_group(head, entry.options)
    for part, share_of_size in zip(parts, share(size, (part.size for part in parts)), strict=True):
        _count(part, share_of_size, 1, tally)
    if not parts:
        _count(entry, size, entry.flags & _COMPRESSED_ENTRY or entry.unpacked_size, tally)
    return parts


def _read_group(head: bytes, options: int) -> list[_Entry]:
    """Return the parts that are compressed together in one entry; [] if the table is damaged."""
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


# ROCm's bundles of code objects (Clang documentation, "Clang Offload Bundler", sections "Bundled
# Binary File Layout" and "Compression and Decompression").
#
# The table at the start of a bundle lists the targets. A bundle compressed as a whole by zlib is
# unpacked up to the end of its table. A bundle compressed by zstd is only counted: Python before
# 3.14 cannot decompress it, and a verdict must not depend on the Python that runs us.

BUNDLE_MAGIC: Final = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED_BUNDLE_MAGIC: Final = b"CCOB"

_COUNT = Struct("<24sQ")  # magic, number of rows that follow
_ROW = Struct("<QQQ")  # offset in the bundle, size, length of the target triple that follows
# Rows; real bundles have one for each target, and one for the host ("Bundle Entry ID").
_MOST_ROWS = 4096
_LONGEST_TRIPLE = 256  # characters; real ones have some fifty
_COMPRESSED_HEAD = Struct("<4sHH")  # magic, version, method
# After magic, version and method (clang's OffloadBundler). Version 1: uncompressed size (4 bytes),
# hash (8). Version 2: size of the whole bundle (4), uncompressed size (4), hash (8). Version 3: as
# version 2, with sizes of 8 bytes.
_SIZES = {
    1: (Struct("<8x I 8x"), False),
    2: (Struct("<8x II 8x"), True),
    3: (Struct("<8x QQ 8x"), True),
}
"""Version -> further fields of the head, and whether the first one is the size of the whole
bundle.
"""
_ZLIB = 0
_METHODS = {_ZLIB: "zlib", 1: "zstd"}
_FETCHED = 1 << 14  # compressed bytes in which the table is searched for
_UNPACKED = 1 << 16  # bytes unpacked from them at most
_PAGE = 4096  # bytes; linkers align bundles to it in the file and in memory
_SOME: Final[Target] = (DeviceKind.AMDGPU.value, "")


class _Row(NamedTuple):
    offset: int
    size: int
    triple: str

    @property
    def target(self) -> Target | None:
        """The target of the code; None for the host's entry, which is empty."""
        # "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+": kind of offloading, triple without an
        # environment, target ID
        system, _, architecture = self.triple.partition("--")
        if system.startswith("host"):
            return None
        kind = DeviceKind.AMDGPU if "amdgcn" in system else DeviceKind.UNKNOWN
        return kind.value, architecture


def walk_bundle(source: LimitedSource, start: int, end: int) -> ContainerWalk:
    """Walk through the bundle at ``start`` in a section that ends at ``end``."""
    at = start + _COUNT.size
    if at > end:
        yield DeviceFault(offset=start, reason="a bundle's head is cut off")
        return end, False
    magic, count = _COUNT.unpack_from(source.read(start, min(NEAR, end - start)))
    if magic != BUNDLE_MAGIC:
        yield DeviceFault(offset=start, reason="bytes that begin like a bundle are not a bundle")
        return start + len(BUNDLE_MAGIC), False
    if count * _ROW.size > end - at:
        reason = f"a bundle claims {count} code objects, but only {end - at} bytes are left"
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
        offset, size, length = _ROW.unpack(source.read(at, _ROW.size))
        at += _ROW.size
        if at + length > end or start + offset + size > end:
            break
        if length > _LONGEST_TRIPLE:
            reason = f"a target of {length} characters; at most {_LONGEST_TRIPLE} are read"
            triple = b""
        else:
            triple = source.read(at, length) if length else b""
        at += length
        rows.append(_Row(offset, size, triple.decode("ascii", "replace")))
    if len(rows) < count:
        fault = f"entry {len(rows) + 1} of a bundle reaches beyond the end"
        yield DeviceFault(offset=start, reason=fault)
    sums = _add_up(rows, [row.size for row in rows], 0)
    yield Container(start, sums, reason, too_large=bool(reason))
    return max([at, *(start + row.offset + row.size for row in rows)]), len(rows) == count


def walk_compressed(source: LimitedSource, start: int, end: int) -> ContainerWalk:
    """Walk through the compressed bundle at ``start`` up to the end of its table."""
    at = start + _COMPRESSED_HEAD.size
    if at > end:
        yield DeviceFault(offset=start, reason="a compressed bundle's head is cut off")
        return end, False
    head = source.read(start, min(NEAR, end - start))
    _, version, method = _COMPRESSED_HEAD.unpack_from(head)
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
        reason = (
            f"a compressed bundle of {stop - start} bytes begins, but only {end - start} are left"
        )
        yield DeviceFault(offset=start, reason=reason)
        stop = end
    rows: list[_Row] = []
    if method == _ZLIB and stop > at:
        unpacked = _unpack(source.read(at, min(stop - at, _FETCHED)))
        if not unpacked.startswith(BUNDLE_MAGIC):
            reason = "a bundle marked as compressed by zlib does not unpack to a bundle"
            yield DeviceFault(offset=start, reason=reason)
        rows = _read_table(unpacked)
    if not sized:
        stop = _find_page(source, at, end)
    if rows:
        sizes = share(stop - start, (row.size for row in rows))
        yield Container(start, _add_up(rows, sizes, 1))
    else:
        how = _METHODS.get(method, f"method {method}")
        reason = f"not read: a bundle of code for AMD's GPUs, compressed as a whole ({how})"
        yield Container(start, (Sum(_SOME, 1, stop - start, 1),), reason)
    return stop, True


def _find_page(source: LimitedSource, at: int, end: int) -> int:
    """Find the next bundle after one that does not state its size; return ``end`` without one."""
    magics = (COMPRESSED_BUNDLE_MAGIC, BUNDLE_MAGIC[:4])
    for page in range(-(-at // _PAGE) * _PAGE, end - _COMPRESSED_HEAD.size, _PAGE):
        if source.read(page, len(COMPRESSED_BUNDLE_MAGIC)) in magics:
            return page
    return end


def _unpack(packed: bytes) -> bytes:
    """Return the first 64 KiB that zlib unpacks; b"" if the stream is broken."""
    try:
        return zlib.decompressobj().decompress(packed, _UNPACKED)
    except zlib.error:
        return b""


def _read_table(head: bytes) -> list[_Row]:
    """Return the table at the start of a bundle; [] if it is not complete."""
    if len(head) < _COUNT.size or not head.startswith(BUNDLE_MAGIC):
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
    """Return the sums of rows by target, without the host's row."""
    tally = Tally()
    for row, size in zip(rows, sizes, strict=True):
        if row.target is not None:
            tally.add(row.target, 1, size, compressed)
    return tally.sums()
