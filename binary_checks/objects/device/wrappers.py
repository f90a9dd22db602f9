"""Reads the table of device code that a library registers when it is loaded (``.nvFatBinSegment``).

A wrapper of version 1 points to a container that was compiled as a whole, or to relocatable code in
``__nv_relfatbin``. One of version 2 points to what the device linker made of the latter, and to an
array in memory, filled at load, of all relocatable containers that went into it: of these the
driver links anew where nothing linked fits its GPU. The array is not in the file, so that of two
such wrappers nobody can say which relocatable code belongs to which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from binary_checks.errors import Unavailable
from binary_checks.model import DeviceFault
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.ranges import merge

SECTIONS: Final = (".nvFatBinSegment",)
SHORT_SECTIONS: Final = (".nvFatBi",)
"""Its first eight letters, as an image for Windows has them."""
RELOCATABLE: Final = ("__nv_relfatbin",)
SHORT_RELOCATABLE: Final = ("__nv_rel",)

WHOLE: Final = 1
LINKED: Final = 2

_WRAPPER = Struct("<IIQQ")  # magic, version, pointer to the container, to a name or to the array
_MAGIC = 0x466243B1
_POINTER: Final = 8  # where in a wrapper that to the container stands
_STEP = 8  # bytes to which wrappers are aligned
_MOST = 1 << 16  # real libraries have some hundreds
_MOST_BYTES = 1 << 22  # of sections with wrappers, padding among them
_MOST_FAULTS = 16
MOST_PLACES: Final = 256
"""Segments or sections that each pointer is looked for in, one by one; real files have a dozen."""
_BLOCK = _WRAPPER.size * 4096

Extent = tuple[int, int]
Follow = Callable[[int, int], int | None]
"""From a pointer's place in the file, and what stands there, to the place that it points to.

None where that is no place in the file.
"""


class Unfollowed(Exception):
    """Where pointers lead is not known; the message says why, in a few words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrappers:
    """What is registered of an object's device code."""

    relocatable: tuple[Extent, ...] = ()  # where relocatable code lies
    versions: Mapping[int, int] = field(default_factory=dict)  # by the place of a container
    faults: tuple[DeviceFault, ...] = ()
    unread: str = ""  # why they are not known
    awaits_linking: bool = False  # nothing is registered yet: it is an object file


def read_wrappers(
    source: LimitedSource,
    extents: Iterable[Extent],
    relocatable: tuple[Extent, ...],
    follow: Follow,
) -> Wrappers:
    """Read the wrappers of these parts of a file and where they point to."""
    versions: dict[int, int] = {}
    faults: list[DeviceFault] = []
    read = 0
    most, most_bytes = source.raised(_MOST), source.raised(_MOST_BYTES)
    extents = merge(extents)
    if sum(end - start for start, end in extents) > most_bytes:
        reason = f"no more than {most_bytes} bytes of wrappers of device code are read of a file"
        return Wrappers(relocatable=relocatable, unread=reason)

    def note(offset: int, reason: str) -> None:
        if len(faults) < _MOST_FAULTS:
            faults.append(DeviceFault(offset=offset, reason=reason))

    try:
        for at, row in _find_wrappers(source, extents, note):
            read += 1
            if read > most:
                raise Unfollowed(f"no more than {most} wrappers of device code are read of a file")
            version, pointer = row
            place = follow(at + _POINTER, pointer)
            if place is None or not 0 <= place < source.size:
                note(at, "a wrapper points to device code outside of the file")
            elif version not in (WHOLE, LINKED):
                raise Unfollowed(f"a wrapper of device code has the version {version}")
            else:
                versions[place] = max(version, versions.get(place, 0))
    except (Unfollowed, Unavailable) as error:
        return Wrappers(relocatable=relocatable, faults=tuple(faults), unread=str(error))
    return Wrappers(relocatable=relocatable, versions=versions, faults=tuple(faults))


def _find_wrappers(
    source: LimitedSource, extents: Iterable[Extent], note: Callable[[int, str], None]
) -> Iterable[tuple[int, tuple[int, int]]]:
    """The place of each wrapper, its version and its pointer; zeros between them are padding."""
    for start, end in extents:
        at, block_start, block = start, start, b""
        while at + _STEP <= end:
            if at + _WRAPPER.size > block_start + len(block):
                block_start, block = at, source.read(at, min(_BLOCK, end - at))
            here = at - block_start
            if not any(block[here : here + _STEP]):
                at += _STEP
                continue
            if end - at < _WRAPPER.size:
                note(at, "a wrapper of device code is cut off")
                break
            magic, version, pointer, _ = _WRAPPER.unpack_from(block, here)
            if magic != _MAGIC:
                note(at, "what stands in the place of a wrapper of device code is none")
                break
            yield at, (version, pointer)
            at += _WRAPPER.size
