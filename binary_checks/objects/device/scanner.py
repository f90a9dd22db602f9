"""Keeps heads and a sample of device code while a file streams by, before its place is known.

The section headers of an ELF file come last. So the first container is searched for by its magic,
and from there on each head tells where the next one is. What is kept in vain costs nothing but
room; what is missed makes the file be read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from binary_checks.objects.device import fatbin, hip_bundles
from binary_checks.objects.device.sampling import SampleCounter
from binary_checks.objects.device.sections import FAR, Extent, walk_device_code
from binary_checks.objects.device.walk import NEAR, Ask, Stored, Walk

_MAGIC = fatbin.MAGIC + b"\1\0"  # with its version
_PATTERN = re.compile(re.escape(_MAGIC))  # found in half of the time that bytes.find takes
_PAGED_MAGICS = (hip_bundles.MAGIC[:4], hip_bundles.COMPRESSED_MAGIC)
_PAGE = 4096  # bytes to which bundles are aligned, in the file as in memory
_OVERLAP = len(_MAGIC) - 1
_PATIENCE = NEAR + FAR  # what a reader looks at as well before it goes further
_MOST_OF_A_HEAD = 256  # bytes, between two jumps
_MOST_KEPT = 1 << 18  # heads, as many as are read


class DeviceScanner:
    """Sees the pieces of a file one after the other and says what of them is worth keeping."""

    def __init__(self, regions: Iterable[Extent], size: int) -> None:
        """``regions`` are where containers are searched for, of a file of ``size`` bytes."""
        self._regions = sorted(regions, reverse=True)  # the next one last
        self._size = size
        self._seen = 0
        self.jumps: list[Extent] = []  # from head to head, over code, in the last piece
        self._tail = b""  # of what was seen, the part that is still needed
        self._at = 0  # where the search goes on
        self._walk: Walk | None = None
        self._ask = Ask(0, 0)  # what the walk waits for
        self._left = _MOST_KEPT
        self._counter = SampleCounter()
        self._sampled = 0, 0  # where the bytes lie that are kept of an entry, from the next one on

    def see(self, piece: bytes) -> Iterator[tuple[int, bytes]]:
        """Take the next piece of the file; yields what to keep of it: offsets and bytes."""
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
            if offset < base:  # what went by is gone; its reader asks for the file once more
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
        """The bytes of the entry that may belong to the sample, as far as they were seen."""
        start, end = self._sampled
        seen = min(end, self._seen)
        if start < seen:
            yield start, window[start - base : seen - base]
            self._sampled = seen, end

    def _note_jump(self, start: int, end: int) -> None:
        if end - start <= _PATIENCE:  # it may be strings that are looked at behind a container
            return
        if self.jumps and start - self.jumps[-1][1] <= _MOST_OF_A_HEAD:
            start = self.jumps.pop()[0]
        self.jumps.append((start, end))

    def _begin_walk(self, window: bytes, base: int) -> bool:
        """Search for a container in the window, which begins at ``base``."""
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
        """Where the first container begins, -1 where there is none before ``end``."""
        found = _PATTERN.search(window, self._at - base, end - base)
        place = base + found.start() if found else -1
        for page in range(-(-self._at // _PAGE) * _PAGE, end if place < 0 else place, _PAGE):
            if window.startswith(_PAGED_MAGICS, page - base):
                return page
        return place

    def _go_on(self, walk: Walk, answer: bytes | None) -> None:
        """Send a walk what it asked for, up to the next thing that it asks for, or its end."""
        try:
            step = next(walk) if answer is None else walk.send(answer)
            while not isinstance(step, Ask):
                if isinstance(step, Stored) and self._counter.takes(step):
                    self._sampled = step.start, step.start + step.size
                step = walk.send(b"")
            self._ask = step
        except StopIteration as end:
            self._walk, self._at = None, end.value
