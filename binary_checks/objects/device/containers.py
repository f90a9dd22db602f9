"""Walks through containers of device code: CUDA's fat binaries and the bundles of ROCm."""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from binary_checks.model import DeviceFault, DeviceKind

# What a walk says on its way: which bytes it needs, and what it found.
#
# Heads lie far apart in sections of hundreds of megabytes, and each tells where the next one is. A
# walk asks for bytes and goes on once it is sent them, so that the same walk serves a file that can
# be read anywhere and one that streams by.


class Ask(NamedTuple):
    """The bytes to be sent next. None lies before the start of what was asked for before."""

    offset: int  # from the start of the file
    length: int


Target = tuple[str, str]
"""The kind and the architecture of a DeviceTarget: plain, since large libraries have thousands."""
UNKNOWN: Final[Target] = (DeviceKind.UNKNOWN.value, "")


class Sum(NamedTuple):
    """Code for one target, added up."""

    target: Target
    entries: int
    bytes: int
    compressed: int  # of the entries


class Container(NamedTuple):
    """One container that was walked through, as far as it holds together."""

    offset: int
    sums: tuple[Sum, ...]  # sorted by target, each once
    reason: str = ""  # why its targets are not known, or not all
    too_large: bool = False  # for it has more of something than is read


class Part(NamedTuple):
    """One piece of code among the bytes that an entry unpacks to."""

    target: Target
    start: int  # in these bytes
    size: int | None  # None: all of them


class Stored(NamedTuple):
    """An entry of a CUDA container: where its bytes lie, and what they unpack to."""

    offset: int  # of its head, from the start of the file
    start: int  # of its bytes
    size: int  # of them, without what pads them
    flags: int
    unpacked_size: int | None  # that its head states; None where nothing compressed it
    parts: tuple[Part, ...]  # more than one where several are compressed together


class Rest(NamedTuple):
    """What was not walked through, for a reason that is not the file's."""

    offset: int  # from the start of the file, up to the end of the device code
    reason: str
    too_large: bool = False  # for there is more of something than is read


NEAR: Final = 64
"""Bytes asked for at the start of a container, and looked at behind one.

One that begins a section is so kept in the same way as one that was come upon.
"""

Step = Ask | Stored | Container | Rest | DeviceFault
Walk = Generator[Step, bytes, int]
"""Is sent the bytes that it asks for; returns where what follows begins."""
ContainerWalk = Generator[Step, bytes, tuple[int, bool]]
"""The same through one container; returns too whether it is certain that what follows begins there.

It is not where the container is of a format that is not known, or at fault.
"""


class Tally:
    """Adds up code by target."""

    def __init__(self) -> None:
        self._sums: dict[Target, tuple[int, int, int]] = {}

    def add(self, target: Target, count: int, size: int, compressed: int) -> None:
        """Count entries of a target, their bytes, and how many of them are compressed."""
        before = self._sums.get(target, (0, 0, 0))
        self._sums[target] = (before[0] + count, before[1] + size, before[2] + compressed)

    def sums(self) -> tuple[Sum, ...]:
        """What was added up, sorted by kind and architecture."""
        return tuple(Sum(target, *sums) for target, sums in sorted(self._sums.items()))


def unknown(offset: int, reason: str) -> Container:
    """A container of which nothing is known but that it is there."""
    return Container(offset, (Sum(UNKNOWN, 1, 0, 0),), reason)


def share(size: int, weights: Iterable[int]) -> list[int]:
    """Split bytes that are compressed together among their parts, by what these unpack to."""
    shares, left = [], size
    parts = list(weights)
    rest = sum(parts)
    for part in parts:
        taken = left * part // rest if rest else 0
        shares.append(taken)
        left, rest = left - taken, rest - part
    return shares


# CUDA's containers: the head of each of its entries, and nothing decompressed.
#
# NVIDIA documents neither; the layout is what nvcc writes, and what cuobjdump lists of it.

FATBIN_MAGIC: Final = b"\x50\xed\x55\xba"
OLD_FATBIN_MAGIC: Final = b"\x01\x5a\xe5\x1e"  # before CUDA 4

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
_COMPRESSED_ENTRY = OLD_LZ | LZ4 | ZSTANDARD
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
            _count(entry, size, entry.flags & _COMPRESSED_ENTRY or entry.unpacked_size, tally)
            yield _store(at, entry, [Part(_target_of(entry), 0, None)])
        at += size
    sums = tally.sums()
    yield Container(start, sums, doubt or _doubt(sums), too_large=bool(doubt))
    # Where not even the first entry makes sense, the size in the head may be as wrong.
    known = at > first or not size_of_all
    return (stop if known else first), known


def _name_unknown(magic: bytes, version: int, head_size: int) -> str:
    """What is not known of a container, "" for nothing."""
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


def _part_of(row: _Entry) -> Part:
    """A part of a group; its row has another meaning for the size of a head."""
    return Part(_target_of(row), row.head_size, row.size)


def _store(at: int, entry: _Entry, parts: Sequence[Part]) -> Stored:
    """Where an entry lies. What is not compressed has all that it claims, padding too."""
    compressed = entry.flags & _COMPRESSED_ENTRY
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
        _count(entry, size, entry.flags & _COMPRESSED_ENTRY or entry.unpacked_size, tally)
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


# ROCm's bundles of code objects: the targets that its table names.
#
# A bundle that is compressed as a whole is unpacked as far as its table, if zlib did it. Of one
# that zstd compressed no more is said than that it is there and how large: Python before 3.14
# cannot undo it, and no answer may hang on the Python that asks.

BUNDLE_MAGIC: Final = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED_BUNDLE_MAGIC: Final = b"CCOB"

_COUNT = Struct("<24sQ")
_ROW = Struct("<QQQ")  # offset in the bundle, size, length of the triple behind this
_MOST_ROWS = 4096  # real ones have one for each target, and one for the host
_LONGEST_TRIPLE = 256  # real ones have some fifty letters
_COMPRESSED_HEAD = Struct("<4sHH")  # magic, version, method
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
    if magic != BUNDLE_MAGIC:
        yield DeviceFault(offset=start, reason="what begins as a bundle does not go on as one")
        return start + len(BUNDLE_MAGIC), False
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
    at = start + _COMPRESSED_HEAD.size
    if at > end:
        yield DeviceFault(offset=start, reason="a compressed bundle's head is cut off")
        return end, False
    head = yield Ask(start, min(NEAR, end - start))
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
        reason = f"a compressed bundle of {stop - start} bytes begins where {end - start} are left"
        yield DeviceFault(offset=start, reason=reason)
        stop = end
    rows: list[_Row] = []
    if method == _ZLIB and stop > at:
        unpacked = _unpack((yield Ask(at, min(stop - at, _FETCHED))))
        if not unpacked.startswith(BUNDLE_MAGIC):
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
    magics = (COMPRESSED_BUNDLE_MAGIC, BUNDLE_MAGIC[:4])
    for page in range(-(-at // _PAGE) * _PAGE, end - _COMPRESSED_HEAD.size, _PAGE):
        if (yield Ask(page, len(COMPRESSED_BUNDLE_MAGIC))) in magics:
            return page
    return end


def _unpack(packed: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(packed, _UNPACKED)
    except zlib.error:
        return b""


def _read_table(head: bytes) -> list[_Row]:
    """The table at the start of a bundle; nothing where it is not there in full."""
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
    tally = Tally()
    for row, size in zip(rows, sizes, strict=True):
        if row.target is not None:
            tally.add(row.target, 1, size, compressed)
    return tally.sums()
