"""Finds in an object file for which C API of NumPy it was compiled, by a message in it.

``import_array()`` of NumPy's headers is compiled into every extension module that calls it, with
the sentence that it ends with where the versions do not fit: up to 1.26 "module compiled against
API version 0x%x", from 2.0 on "module was compiled against NumPy C-API version 0x%x (NumPy 1.25)",
which names the oldest NumPy that such a module runs with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from binary_checks.model import Kind, NumpyBuild, ObjectFile
from binary_checks.model.protocols import Observations, ReadObject
from binary_checks.objects.limits import LimitedSource

_HINT = b"compiled against "
_FIRST = re.compile(rb"module compiled against API version 0x%x")
_SECOND = re.compile(
    rb"module was compiled against NumPy C-API version 0x%x \(NumPy (\d{1,3}\.\d{1,3})"
)
_REACH = 128  # bytes around the hint that one sentence takes
_BLOCK = 1 << 18
_LARGEST = 256 << 20  # bytes of an object that is searched: no extension module has as many


class NumpyScanner:
    """Looks for the sentences while a file streams by."""

    def __init__(self) -> None:
        self._tail = b""
        self.first = False
        self.second: set[bytes] = set()

    def see(self, piece: bytes) -> Iterable[tuple[int, bytes]]:
        """Take the next piece of the file, of which nothing is worth keeping."""
        self._look(self._tail + piece[:_REACH])
        self._look(piece)
        self._tail = (self._tail + piece[-_REACH:])[-_REACH:]
        return ()

    def _look(self, text: bytes) -> None:
        if _HINT in text:
            self.first = self.first or _FIRST.search(text) is not None
            self.second.update(_SECOND.findall(text))

    def conclude(self) -> NumpyBuild | None:
        """For which API the file was compiled; of several the later."""
        if self.second:
            oldest = max(self.second, key=lambda text: tuple(map(int, text.split(b"."))))
            return NumpyBuild(api=2, oldest=oldest.decode())
        return NumpyBuild(api=1) if self.first else None


def is_searched(size: int, factor: int) -> bool:
    """Whether a file of that size is searched at all."""
    return size <= _LARGEST * factor


def add_build(
    found: tuple[ReadObject, ...], source: LimitedSource, observations: Observations
) -> tuple[ReadObject, ...]:
    """The objects of a file, each with the API that the file was compiled for."""
    scanner = observations.of(NumpyScanner)
    if scanner is None:
        scanner = NumpyScanner()
        for offset in range(
            0, source.size if is_searched(source.size, source.factor) else 0, _BLOCK
        ):
            scanner.see(source.read(offset, min(_BLOCK, source.size - offset)))
    build = scanner.conclude()
    if build is None:
        return found
    return tuple(
        replace(each, numpy=build) if isinstance(each, ObjectFile) else each for each in found
    )


def is_loadable(item: object) -> bool:
    """Whether an object is one that Python may load."""
    return isinstance(item, ObjectFile) and item.kind is Kind.SHARED
