"""Walk through containers of device code: CUDA's fat binaries and ROCm's offload bundles."""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from binary_checks.model import DeviceFault, DeviceKind, DeviceTarget
from binary_checks.objects.byte_source import LimitedSource
from binary_checks.trees.kept_bytes import ByteStore

# The results of a walk.

UNKNOWN: Final = DeviceTarget(kind=DeviceKind.UNKNOWN)


class Part(NamedTuple):
    """The code of an entry for one target."""

    target: DeviceTarget
    bytes: int  # its share of the bytes of the file, including the entry's head
    compressed: bool
    start: int = 0  # bytes from the start of the unpacked entry
    size: int | None = None  # bytes when unpacked; None: the whole entry


class Entry(NamedTuple):
    """An entry of a container: the location of its bytes, and the parts they unpack to."""

    offset: int  # offset of the head, in bytes from the start of the file
    parts: tuple[Part, ...]  # several if they are compressed together
    start: int = 0  # offset of the payload, in bytes from the start of the file
    size: int = 0  # bytes of the payload without padding
    flags: int = 0
    unpacked_size: int | None = None  # from its head; None if it is not compressed


class Container(NamedTuple):
    """One container, as far as it could be read."""

    offset: int  # bytes from the start of the file
    entries: tuple[Entry, ...]
    reason: str = ""  # why some targets are unknown

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of all entries."""
        return tuple(part for entry in self.entries for part in entry.parts)


ContainerWalk = Generator[Container | DeviceFault, None, tuple[int, bool]]
"""A walk through one container. It returns the offset of the following data, and whether
that offset is certain. After a container of an unknown format, or with a fault, it is not.
"""


def _name_contents(offset: int, target: DeviceTarget, reason: str, size: int = 0) -> Container:
    """Return a container whose contents are not read."""
    part = Part(target, size, bool(size))
    return Container(offset, (Entry(offset, (part,)),), reason)


def _share(size: int, weights: Sequence[int]) -> list[int]:
    """Split the size of jointly compressed parts in proportion to their unpacked sizes."""
    shares, left, rest = [], size, sum(weights)
    for weight in weights:
        shares.append(left * weight // rest if rest else 0)
        left, rest = left - shares[-1], rest - weight
    return shares


# CUDA's fat binaries: the heads of entries, without decompressing.
#
# NVIDIA documents neither containers nor entries. The layouts come from files that nvcc writes,
# compared with cuobjdump's lists. Numbers are little-endian.

FATBIN_MAGIC: Final = b"\x50\xed\x55\xba"
OLD_FATBIN_MAGIC: Final = b"\x01\x5a\xe5\x1e"  # before CUDA 4

_CONTAINER = Struct("<4sHHQ")  # magic, version, size of this head, size of all entries, in bytes
_LONGEST_HEAD = 64  # bytes of a container's head; real ones have 16
# Kind, version, size of this head, size of the payload, size of the compressed payload, offset of
# the options, (minor and major version of the code), architecture, (offset and size of the name),
# flags, unpacked size. Sizes and offsets are in bytes, offsets from the start of this head.
_ENTRY = Struct("<HHIQII4xI8xQ8xQ")
_GROUP = Struct("<II")  # entries compressed together: their number, and the bytes of their table
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


@lru_cache(maxsize=1024)
def _name_target(kind: int, version: int, architecture: int, flags: int) -> DeviceTarget:
    """Return the target of an entry; the suffix of its architecture is only in the flags."""
    if version != _ENTRY_VERSION or not 0 < architecture <= _HIGHEST_ARCHITECTURE:
        return UNKNOWN
    name = f"sm_{architecture}{_SUFFIXES.get(flags & _SUFFIX_MASK, '?')}"
    return DeviceTarget(kind=_KINDS.get(kind, DeviceKind.UNKNOWN), architecture=name)


def walk_fatbin(source: LimitedSource, start: int, end: int) -> ContainerWalk:
    """Walk through the container at ``start`` in a section that ends at ``end``."""
    head = source.read(start, _CONTAINER.size)
    magic, version, head_size, size_of_all = _CONTAINER.unpack(head)
    which = ""
    if magic != FATBIN_MAGIC:
        which = "an old format"
    elif version != 1:
        which = f"version {version}"
    elif not _CONTAINER.size <= head_size <= _LONGEST_HEAD:
        which = f"a head of {head_size} bytes"
    if which:
        yield _name_contents(start, UNKNOWN, f"a container of {which}")
        return start + _CONTAINER.size, False
    first, stop = start + head_size, start + head_size + size_of_all
    if stop > end:
        left = max(end - first, 0)
        yield DeviceFault(
            offset=start,
            reason=f"a container of {size_of_all} bytes begins, but only {left} are left",
        )
        stop = end
    entries: list[Entry] = []
    at = first
    while at < stop:
        if at + _ENTRY.size > stop:
            reason = f"a container ends {stop - at} bytes after the start of an entry"
            yield DeviceFault(offset=at, reason=reason)
            break
        fields = _ENTRY.unpack(source.read(at, _ENTRY.size))
        kind, version, head_size, size, packed, options, architecture, flags, unpacked = fields
        if head_size < _ENTRY.size or head_size + size > stop - at:
            reason = (
                f"an entry claims {head_size} + {size} bytes, but"
                f" only {stop - at} are left of its container"
            )
            yield DeviceFault(offset=at, reason=reason)
            break
        # The payload of an entry that is not compressed includes its padding.
        compressed = bool(flags & _COMPRESSED_ENTRY)
        target = _name_target(kind, version, architecture, flags)
        parts = [Part(target, head_size + size, compressed or bool(unpacked))]
        if (kind, version) == (_GROUP_KIND, _ENTRY_VERSION):
            parts = _read_group(source, at, options, head_size, size) or parts
        entries.append(
            Entry(
                offset=at,
                parts=tuple(parts),
                start=at + head_size,
                size=min(packed if compressed else size, size),
                flags=flags,
                unpacked_size=unpacked if compressed else None,
            )
        )
        at += head_size + size
    container = Container(start, tuple(entries))
    if any(part.target.kind is DeviceKind.UNKNOWN for part in container.parts):
        container = container._replace(reason="entries of an unknown kind or version")
    yield container
    # If the first entry is damaged, the size of all entries may also be wrong.
    known = at > first or not size_of_all
    return (stop if known else first), known


def _read_group(
    source: LimitedSource, at: int, options: int, head_size: int, size: int
) -> list[Part]:
    """Return the parts that are compressed together in one entry; [] if the table is damaged."""
    if not _ENTRY.size <= options <= head_size - _GROUP.size:
        return []
    count, length = _GROUP.unpack(source.read(at + options, _GROUP.size))
    if length != _GROUP.size + count * _ENTRY.size or options + length > head_size:
        return []
    table = source.read(at + options + _GROUP.size, count * _ENTRY.size)
    rows = list(_ENTRY.iter_unpack(table))
    shares = _share(head_size + size, [row[3] for row in rows])
    # In this table, the size of the head is the offset of the part in the unpacked bytes.
    return [
        Part(_name_target(kind, version, architecture, flags), share, True, start, part_size)
        for share, (kind, version, start, part_size, _, _, architecture, flags, _) in zip(
            shares, rows, strict=True
        )
    ]


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
_TABLE = 1 << 16  # compressed bytes in which the table is searched for, and bytes unpacked at most
_PAGE = 4096  # bytes; linkers align bundles to it in the file and in memory


class _Row(NamedTuple):
    target: DeviceTarget | None  # None for the host's row, whose code is empty
    end: int  # end of the code, in bytes from the start of the bundle
    size: int


def _read_rows(source: LimitedSource, start: int, end: int) -> tuple[list[_Row], int, int]:
    """Return the rows that lie before ``end``, their end, and how many the table claims."""
    _, count = _COUNT.unpack(source.read(start, _COUNT.size))
    rows: list[_Row] = []
    at = start + _COUNT.size
    while len(rows) < count and at + _ROW.size <= end:
        offset, size, length = _ROW.unpack(source.read(at, _ROW.size))
        if at + _ROW.size + length > end:
            break
        triple = source.read(at + _ROW.size, length).decode("ascii", "replace")
        rows.append(_Row(_read_triple(triple), offset + size, size))
        at += _ROW.size + length
    return rows, at, count


def _read_triple(triple: str) -> DeviceTarget | None:
    """Return the target of a row in a bundle; None for the host."""
    # "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+": kind of offloading, triple without an
    # environment, target ID
    system, _, architecture = triple.partition("--")
    if system.startswith("host"):
        return None
    kind = DeviceKind.AMDGPU if "amdgcn" in system else DeviceKind.UNKNOWN
    return DeviceTarget(kind=kind, architecture=architecture)


def _list_code(
    offset: int, rows: Iterable[_Row], sizes: Iterable[int], *, compressed: bool
) -> Container:
    """Return a bundle with the code of these rows, without the host's."""
    parts = (
        Part(row.target, size, compressed)
        for row, size in zip(rows, sizes, strict=True)
        if row.target is not None
    )
    return Container(offset, (Entry(offset, tuple(parts)),))


def walk_bundle(source: LimitedSource, start: int, end: int) -> ContainerWalk:
    """Walk through the bundle at ``start`` in a section that ends at ``end``."""
    at = start + _COUNT.size
    if at > end:
        yield DeviceFault(offset=start, reason="a bundle's head is cut off")
        return end, False
    magic, count = _COUNT.unpack(source.read(start, _COUNT.size))
    if magic != BUNDLE_MAGIC:
        yield DeviceFault(offset=start, reason="bytes that begin like a bundle are not a bundle")
        return start + len(BUNDLE_MAGIC), False
    if count * _ROW.size > end - at:
        reason = f"a bundle claims {count} code objects, but only {end - at} bytes are left"
        yield DeviceFault(offset=start, reason=reason)
        return at, False
    rows, at, _ = _read_rows(source, start, end)
    whole = next((place for place, row in enumerate(rows) if start + row.end > end), len(rows))
    rows = rows[:whole]
    if len(rows) < count:
        reason = f"entry {len(rows) + 1} of a bundle reaches beyond the end"
        yield DeviceFault(offset=start, reason=reason)
    yield _list_code(start, rows, [row.size for row in rows], compressed=False)
    return max([at, *(start + row.end for row in rows)]), len(rows) == count


def walk_compressed(source: LimitedSource, start: int, end: int) -> ContainerWalk:
    """Walk through the compressed bundle at ``start`` up to the end of its table."""
    _, version, method = _COMPRESSED_HEAD.unpack(source.read(start, _COMPRESSED_HEAD.size))
    if version not in _SIZES:
        reason = f"not read: a compressed bundle of version {version}"
        yield _name_contents(start, UNKNOWN, reason)
        return start + _COMPRESSED_HEAD.size, False
    layout, sized = _SIZES[version]
    at = start + layout.size
    if at > end:
        yield DeviceFault(offset=start, reason="a compressed bundle's head is cut off")
        return end, False
    stop = start + layout.unpack(source.read(start, layout.size))[0] if sized else end
    if not at <= stop <= end:
        reason = (
            f"a compressed bundle of {stop - start} bytes begins, but only {end - start} are left"
        )
        yield DeviceFault(offset=start, reason=reason)
        stop = end
    rows: list[_Row] = []
    if method == _ZLIB and stop > at:
        try:
            packed = source.read(at, min(stop - at, _TABLE))
            unpacked = zlib.decompressobj().decompress(packed, _TABLE)
        except zlib.error:
            unpacked = b""
        if not unpacked.startswith(BUNDLE_MAGIC):
            reason = "a bundle marked as compressed by zlib does not unpack to a bundle"
            yield DeviceFault(offset=start, reason=reason)
        elif len(unpacked) >= _COUNT.size:
            beginning = LimitedSource(ByteStore(unpacked))
            rows, _, count = _read_rows(beginning, 0, beginning.size)
            rows = rows if len(rows) == count else []
    if not sized:
        stop = _find_page(source, at, end)
    if rows:
        sizes = _share(stop - start, [row.size for row in rows])
        yield _list_code(start, rows, sizes, compressed=True)
    else:
        how = _METHODS.get(method, f"method {method}")
        reason = f"not read: a bundle of code for AMD's GPUs, compressed as a whole ({how})"
        yield _name_contents(start, DeviceTarget(kind=DeviceKind.AMDGPU), reason, stop - start)
    return stop, True


def _find_page(source: LimitedSource, at: int, end: int) -> int:
    """Find the next bundle after one that does not state its size; return ``end`` without one."""
    magics = (COMPRESSED_BUNDLE_MAGIC, BUNDLE_MAGIC[:4])
    for page in range(-(-at // _PAGE) * _PAGE, end - _COMPRESSED_HEAD.size, _PAGE):
        if source.read(page, len(COMPRESSED_BUNDLE_MAGIC)) in magics:
            return page
    return end
