"""Keep heads and a sample of device code while a file is streamed, before its sections are known.

The section headers of an ELF file come last. The first container is therefore found by its magic,
and from then on each head states where the next one is. Bytes kept in vain only cost memory; if
bytes are missing, the file is read again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

from binary_checks.model import DeviceKind
from binary_checks.objects.device.containers import (
    BUNDLE_MAGIC,
    COMPRESSED_BUNDLE_MAGIC,
    FATBIN_MAGIC,
    NEAR,
    Ask,
    Stored,
    Walk,
)
from binary_checks.objects.device.sections import FAR, Extent, walk_device_code

# The entries of an object that are decompressed: a few, spread over all entries. A build uses one
# toolkit, or two with a vendor's archive, and damage is seldom limited to one entry.

_SIZE: Final = 16  # entries of each kind in one object
_KINDS: Final = frozenset((DeviceKind.SASS.value, DeviceKind.PTX.value))
_Entry = TypeVar("_Entry")


class SampleCounter:
    """Decides for each entry, when it appears, whether it may belong to its object's sample.

    The number of entries is known only after the last one. Therefore each of the first 32 entries
    of a kind is a candidate, every second of the next 32, every fourth of the next 64, and so on.
    In the end 17 to 32 of them are multiples of the last step: all of these were candidates, and
    they are evenly spread.
    """

    def __init__(self) -> None:
        self._met: Counter[str] = Counter()

    def takes(self, stored: Stored) -> bool:
        """Count all parts of an entry, and return whether one is a candidate for the sample."""
        found = [self.is_candidate(part.target[0]) for part in stored.parts]
        return any(found)

    def is_candidate(self, kind: str) -> bool:
        """Count a piece of code, and return whether it is a candidate for the sample."""
        if kind not in _KINDS:
            return False
        index = self._met[kind]
        self._met[kind] += 1
        step = 1 << (index // (2 * _SIZE)).bit_length()
        return index % step == 0


class Sample(Generic[_Entry]):
    """Chooses the entries of one object to decompress, after all have been seen."""

    def __init__(self) -> None:
        self._counter = SampleCounter()
        self._candidates: dict[str, list[_Entry]] = {kind: [] for kind in sorted(_KINDS)}

    def add(self, kind: str, entry: _Entry) -> None:
        """Add the next entry; at most 32 of a kind are kept."""
        if self._counter.is_candidate(kind):
            candidates = self._candidates[kind]
            candidates.append(entry)
            if len(candidates) > 2 * _SIZE:  # this entry is the first one of a doubled step
                del candidates[1::2]

    def choose(self) -> Iterator[_Entry]:
        """Yield up to 16 entries of each kind, spread evenly."""
        for candidates in self._candidates.values():
            count = len(candidates)
            chosen = min(count, _SIZE)
            yield from (candidates[index * count // chosen] for index in range(chosen))


# The scanner.

_MAGIC = FATBIN_MAGIC + b"\1\0"  # with version 1
_PATTERN = re.compile(re.escape(_MAGIC))  # twice as fast as bytes.find
_PAGED_MAGICS = (BUNDLE_MAGIC[:4], COMPRESSED_BUNDLE_MAGIC)
_PAGE = 4096  # bytes; linkers align bundles to it in the file and in memory
_OVERLAP = len(_MAGIC) - 1
_PATIENCE = NEAR + FAR  # bytes that the reader also searches before it gives up
_MOST_OF_A_HEAD = 256  # limit on bytes between two jumps that are joined
_MOST_SAMPLED = 256 << 20  # bytes of entries that are kept for the sample of one object
_MOST_KEPT = 1 << 18  # limit on heads, the same as the reader's


class DeviceScanner:
    """Receives a file piece by piece, and decides which bytes to keep."""

    def __init__(self, regions: Iterable[Extent], size: int) -> None:
        """Search for containers in ``regions`` of a file of ``size`` bytes."""
        self._regions = sorted(regions, reverse=True)  # in reverse order: the next region is last
        self._size = size
        self._seen = 0
        self.jumps: list[Extent] = []  # ranges of code in the last piece, from one head to the next
        self._tail = b""  # bytes seen that are still needed
        self._at = 0  # file offset at which the search continues
        self._walk: Walk | None = None
        self._ask = Ask(0, 0)  # the request of the walk that is not answered yet
        self._left = _MOST_KEPT
        self._counter = SampleCounter()
        self._sample_left = _MOST_SAMPLED
        self._sampled = 0, 0  # range of the entry whose bytes are being kept

    def see(self, piece: bytes) -> Iterator[tuple[int, bytes]]:
        """Take the next piece of the file; yield the bytes to keep, each with its offset."""
        window = self._tail + piece
        self.jumps = [jump for jump in self.jumps if jump[1] > self._seen]
        base = self._seen - len(self._tail)
        self._seen += len(piece)
        while self._left:
            yield from self._keep_sampled(window, base)
            if self._walk is None and not self._begin_walk(window, base):
                break
            offset, length = self._ask
            if self._walk is None or offset + length > self._seen:
                break
            if offset < base:  # these bytes are gone; the reader will read the file again
                self._left = 0
                break
            head = window[offset - base : offset - base + length]
            self._left -= 1
            yield offset, head
            self._go_on(self._walk, head)
            if self._walk is not None:
                self._note_jump(offset + length, self._ask.offset)
        needed = self._at if self._walk is None else self._ask.offset
        self._tail = window[needed - base :] if self._left else b""

    def _keep_sampled(self, window: bytes, base: int) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes of a candidate for the sample that are in the window."""
        start, end = self._sampled
        seen = min(end, self._seen)
        if start < seen:
            yield start, window[start - base : seen - base]
            self._sampled = seen, end

    def _note_jump(self, start: int, end: int) -> None:
        # These bytes are searched after a container, so they may be strings.
        if end - start <= _PATIENCE:
            return
        if self.jumps and start - self.jumps[-1][1] <= _MOST_OF_A_HEAD:
            start = self.jumps.pop()[0]
        self.jumps.append((start, end))

    def _begin_walk(self, window: bytes, base: int) -> bool:
        """Search for a container in the window that begins at file offset ``base``."""
        while self._regions:
            start, stop = self._regions[-1]
            self._at = max(self._at, start)
            end = min(stop, self._seen)
            place = self._search(window, base, end) if self._at < end else -1
            if place >= 0:
                self._walk = walk_device_code(place, self._size, _PATIENCE)
                self._go_on(self._walk, None)
                return True
            if stop > self._seen:
                self._at = max(self._at, end - _OVERLAP)
                return False
            self._regions.pop()
        self._at = self._seen
        return False

    def _search(self, window: bytes, base: int, end: int) -> int:
        """Return the offset of the first container before ``end``; -1 if there is none."""
        found = _PATTERN.search(window, self._at - base, end - base)
        place = base + found.start() if found else -1
        for page in range(-(-self._at // _PAGE) * _PAGE, end if place < 0 else place, _PAGE):
            if window.startswith(_PAGED_MAGICS, page - base):
                return page
        return place

    def _sample(self, entry: Stored) -> None:
        """Keep the bytes of an entry; an entry above the size limit is read from the file later."""
        if entry.size <= self._sample_left:
            self._sample_left -= entry.size
            self._sampled = entry.start, entry.start + entry.size

    def _go_on(self, walk: Walk, answer: bytes | None) -> None:
        """Send a walk the bytes that it requested, and run it to its next request or its end."""
        try:
            step = next(walk) if answer is None else walk.send(answer)
            while not isinstance(step, Ask):
                if isinstance(step, Stored) and self._counter.takes(step):
                    self._sample(step)
                step = walk.send(b"")
            self._ask = step
        except StopIteration as end:
            self._walk, self._at = None, end.value
