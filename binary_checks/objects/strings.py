"""Search the strings of object files.

The search is for four kinds of strings: names of libraries that may be passed to dlopen or
LoadLibrary, texts left by statically linked libraries, NumPy's message that states the C API, and
GCC's record of the CPU that it compiled for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from binary_checks.knowledge.linked_libraries import ANCHORS, is_mark
from binary_checks.model import Kind, NumpyBuild, ObjectFile, OpenedNames, ReadObject
from binary_checks.objects.byte_source import BLOCK, LimitedSource, merge

Extent = tuple[int, int]

# Names of shared libraries, and whether a string at some offset is one.
#
# Only a complete C string counts. Templates (``lib%s.so``), paths, and strings without a final NUL,
# as Go and Rust write them, do not count.

LONGEST: Final = 255
"""The longest file name that systems allow (NAME_MAX), in bytes."""

_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.-"
_PRINTABLE = bytes(range(0x20, 0x7F))


class NamePattern(NamedTuple):
    """Regular expressions for file names of shared libraries."""

    ending: bytes  # matches the end of every name; a fixed first letter makes the search fast
    name: bytes
    # Whether every name begins with "lib", so that a digit before "lib" is not part of the name.
    prefixed: bool = False


ELF_NAMES: Final = NamePattern(
    rb"\.so[\0.]", rb"lib[A-Za-z0-9_+.\-]+?\.so(?:\.[0-9]+)*", prefixed=True
)
MACHO_NAMES: Final = NamePattern(rb"\.dylib\0", rb"lib[A-Za-z0-9_+.\-]+?\.dylib", prefixed=True)
PE_NAMES: Final = NamePattern(
    rb"\.(?:dll\0|DLL\0|\0d\0l\0l\0\0\0)", rb"[A-Za-z][A-Za-z0-9_+.\-]+?\.(?i:dll)"
)


def read_name(window: bytes, place: int, pattern: NamePattern) -> str:
    """Return the name whose ending begins at ``place``; "" if there is none."""
    wide = not window[place + 1]
    text = _wide_at(window, place) if wide else _string_at(window, place, pattern.prefixed)
    return text.decode("ascii") if text and re.fullmatch(pattern.name, text) else ""


def _string_at(window: bytes, place: int, prefixed: bool) -> bytes:
    """Return the NUL-terminated string around ``place``; b"" if it is too long or cut off.

    The byte before the string must be a NUL. If names have the prefix "lib", any byte that is not
    printable is accepted instead.
    """
    before = window[max(place - LONGEST, 0) : place]
    start = place - _measure_end(before, _LETTERS)
    if not start or start == place - LONGEST or window[start - 1] in _PRINTABLE:
        return b""
    if window[start - 1] and not prefixed:
        return b""
    text, nul, _ = window[start : start + LONGEST + 1].partition(b"\0")
    return text if nul else b""


def _wide_at(window: bytes, place: int) -> bytes:
    """Return the UTF-16 string whose suffix (``.dll``) begins at ``place``, as ASCII, or b""."""
    end = place + 8
    before = window[place - 2 * min(LONGEST, place // 2) : place]
    length = min(_measure_end(before[::2], _LETTERS), _measure_end(before[1::2], b"\0"))
    start = place - 2 * length
    if window[end - 1 : end + 2] != b"\0\0\0" or length == LONGEST:
        return b""
    low, high = window[start - 2 : start]
    if low in _PRINTABLE and high in _PRINTABLE:
        # The last letter of a preceding ASCII text and its NUL look like a first UTF-16 letter.
        start += 2
    elif low in _PRINTABLE and not high:
        return b""
    return window[start:end:2]


def _measure_end(text: bytes, letters: bytes) -> int:
    """Return the number of characters at the end of ``text`` that are among ``letters``."""
    return len(text) - len(text.rstrip(letters))


# Texts that libraries compile into themselves, and that identify statically linked libraries.
#
# Example: every object that contains zlib has "deflate 1.3.1 Copyright 1995-2024 …".
# `knowledge.linked_libraries` decides which texts count. Searching once for each of a few anchors
# is faster than one regular expression for all texts.

_BEFORE, _BEHIND = 64, 128  # bytes before and behind an anchor that may belong to its text
_START = re.compile(rb"[\t\x20-\x7e]*\Z")
_REST = re.compile(rb"[\t\x20-\x7e]*")

# One pass for both: the names are searched for only if the object may open libraries.

_REACH = 2 * LONGEST + 2  # bytes before and after an ending or an anchor that may belong to it


def search_strings(
    source: LimitedSource,
    wanted: Iterable[Extent],
    pattern: NamePattern | None,
    known: Iterable[str] = (),
) -> tuple[OpenedNames | None, tuple[str, ...]]:
    """Return the names and the texts of libraries in the wanted parts of a file, sorted.

    Without a pattern the first result is None. Names in ``known`` are left out, regardless of case.
    """
    names, texts = set[str](), set[str]()
    ending = re.compile(pattern.ending) if pattern else None
    for start, end in merge((start, min(end, source.size)) for start, end in wanted):
        for begin, block in source.blocks(start, end, _REACH):
            if pattern and ending:
                window = b"\0\0" + block  # a name may begin at the first byte
                for match in ending.finditer(window, begin):
                    names.add(read_name(window, match.start(), pattern))
            for anchor in ANCHORS:
                place = block.find(anchor, begin)
                while 0 <= place < begin + BLOCK:
                    text = _read_text(block, place)
                    if is_mark(text):
                        texts.add(text)
                    place = block.find(anchor, place + len(anchor))
    if pattern is None:
        return None, tuple(sorted(texts))
    left_out = {"", *(name.lower() for name in known)}
    found = sorted(name for name in names if name.lower() not in left_out)
    return OpenedNames(names=tuple(found)), tuple(sorted(texts))


def _read_text(block: bytes, place: int) -> str:
    """Return the line of printable characters around a place."""
    before = _START.search(block[max(place - _BEFORE, 0) : place])
    rest = _REST.match(block, place, place + _BEHIND)
    assert before is not None
    assert rest is not None
    return (before[0] + rest[0]).decode("ascii").strip()


# The NumPy version that an extension module was compiled for.
#
# ``import_array()`` in NumPy's headers is compiled into every extension module that calls it,
# together with an error message for versions that do not fit: up to NumPy 1.26 "module compiled
# against API version 0x%x", since 2.0 "module was compiled against NumPy C-API version 0x%x (NumPy
# 1.25)", which names the oldest NumPy that the module runs with.

_COMPILED_AGAINST = b"compiled against "
_NUMPY_1 = re.compile(rb"module compiled against API version 0x%x")
_NUMPY_2 = re.compile(
    rb"module was compiled against NumPy C-API version 0x%x \(NumPy (\d{1,3}\.\d{1,3})"
)

# The CPU that an object was compiled for, by options that GCC records in debug information
# (DW_AT_producer).
#
# For ``-march=native`` the record has what the driver found: the CPU, each instruction set that the
# CPU has or lacks, and the sizes of its caches. An option such as ``-march=znver3`` is recorded
# alone.

_CACHE = b"l1-cache-size="
_NATIVE = re.compile(rb"-march=([\w.-]{1,40})((?: -m[\w.=+-]{1,60}){1,300} )--param[ =]\Z")
_SETS = ((b" -mavx512f ", "AVX-512"), (b" -mavx2 ", "AVX2"), (b" -mavx ", "AVX"))
_LONGEST_RECORD = 8192  # bytes from -march to the size of the cache; GCC 12 needs 1,200


def _find_native_cpus(block: bytes, begin: int) -> Iterator[str]:
    """Yield each CPU with its newest instruction set, "znver3 with AVX-512", from ``begin`` on.

    The record of ``-march=native`` ends with the size of a cache.
    """
    at = block.find(_CACHE, begin)
    while at >= 0:
        match = _NATIVE.search(block[max(at - _LONGEST_RECORD, 0) : at])
        newest = (name for word, name in _SETS if match and word in match[2])
        if match and (name := next(newest, "")):
            yield f"{match[1].decode()} with {name}"
        at = block.find(_CACHE, at + len(_CACHE))


# Both are searched for in one pass.


def add_build(found: tuple[ReadObject, ...], source: LimitedSource) -> tuple[ReadObject, ...]:
    """Return the objects of a file with the NumPy API and the CPU that it was compiled for."""
    first, second, cpus = False, set[bytes](), set[str]()
    for begin, block in source.blocks(0, source.size, _LONGEST_RECORD):
        if _COMPILED_AGAINST in block:
            first = first or _NUMPY_1.search(block) is not None
            second.update(_NUMPY_2.findall(block))
        cpus.update(_find_native_cpus(block, begin))
    build = NumpyBuild(api=1) if first else None
    if second:  # the newest API of NumPy
        oldest = max(second, key=lambda text: tuple(map(int, text.split(b"."))))
        build = NumpyBuild(api=2, oldest=oldest.decode())
    if build is None and not cpus:
        return found
    return tuple(
        replace(each, numpy=build, native_cpu=min(cpus, default=""))
        if isinstance(each, ObjectFile)
        else each
        for each in found
    )


def is_loadable(item: object) -> bool:
    """Return whether Python may load the object."""
    return isinstance(item, ObjectFile) and item.kind is Kind.SHARED
