"""Device code in a file that streams by: the scanner keeps everything that the reader asks for."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import closing

import pytest

from binary_checks import objects
from binary_checks.model import ObjectFile, Plan
from binary_checks.objects.device import scanner as device_scanner
from binary_checks.objects.device.containers import Ask, Walk
from binary_checks.objects.device.scanner import DeviceScanner
from binary_checks.trees.kept_bytes import MemorySource, StreamedObject
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import bundle, compressed_bundle, container, entry
from fixtures.samples import read_fatbin_sample
from tests.objects.pe_sections import add_section

CUDA = (
    read_fatbin_sample("concatenated.fatbin")
    + bytes(16)
    + read_fatbin_sample("missing_architecture.fatbin")
)
HIP = bundle(["gfx90a", "gfx1100"]).ljust(2 * 4096, b"\0") + compressed_bundle(bundle(["gfx90a"]))
NOISE = random.Random(1).randbytes(20_000)


def again() -> Iterator[bytes]:
    """Return nothing: no byte that is asked for may be missing."""
    raise AssertionError("the file is read again")


def stream(content: bytes, device: bytes, piece: int) -> tuple[object, ...]:
    """Read a file that streamed by in pieces, with everything but the device code kept."""
    ends = [0, *(end for at in find_all(content, device) for end in (at, at + len(device)))]
    ranges = zip(ends[::2], [*ends[1::2], len(content)], strict=True)
    file = StreamedObject(Planned(ranges), content[:4096], len(content), again)
    for start in range(0, len(content), piece):
        file.append(content[start : start + piece])
    with closing(file):
        return facts(file.read("lib.so"))


class Planned(objects.LimitedReader):
    """A reader that keeps other ranges."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        super().__init__(1, samples=True)
        self.ranges = tuple(ranges)

    def plan(self, head: bytes, size: int) -> Plan:
        """Scan the same, and keep other ranges."""
        return Plan(ranges=self.ranges, scanners=super().plan(head, size).scanners)


def find_all(content: bytes, part: bytes) -> Iterator[int]:
    """Yield every offset of the part."""
    at = content.find(part)
    while at >= 0:
        yield at
        at = content.find(part, at + len(part))


def facts(found: tuple[object, ...]) -> tuple[object, ...]:
    """Return what can be compared of objects: symbol tables cannot."""
    (item,) = found
    assert isinstance(item, ObjectFile)
    names = ("device_code", "device_containers", "device_faults", "device_sample")
    return tuple(getattr(item, name) for name in names)


def library(section: str, content: bytes) -> bytes:
    """Build a library without segments for its device code, which is then searched everywhere."""
    return build_elf(kind="relocatable", sections={".noise": NOISE, section: content})


ODD = (CUDA[:6] + b"\x35\0" + CUDA[8:200] + bytes(96) + CUDA).ljust(8192, b"\0")
MANY = read_fatbin_sample("toolkit_13.5.fatbin") * 100
NESTED = container(entry(payload=CUDA))
FILES = {
    "cuda": (library(".nv_fatbin", CUDA), CUDA),
    "cuda twice": (
        build_elf(
            kind="relocatable",
            sections={".nv_fatbin": CUDA, ".noise": NOISE, "__nv_relfatbin": CUDA},
        ),
        CUDA,
    ),
    # The second section is found by searching from the end of the first.
    "cuda twice, a page apart": (
        build_elf(
            kind="relocatable",
            sections={
                ".nv_fatbin": CUDA,
                ".zeros": bytes(4136),
                "__nv_relfatbin": CUDA,
            },
        ),
        CUDA,
    ),
    "a container within": (library(".nv_fatbin", NESTED), NESTED),
    "a magic in vain": (
        build_elf(kind="relocatable", sections={".noise": CUDA[:6] + NOISE, ".nv_fatbin": CUDA}),
        CUDA,
    ),
    "a head of another size, and no entry": (library(".nv_fatbin", ODD), ODD),
    "for Windows": (add_section("plain.dll", ".nv_fatb", CUDA), CUDA),
    "loose": (CUDA, CUDA[64:]),
    "many": (library(".nv_fatbin", MANY), MANY),
    "loose bundles": (HIP, HIP[64:]),
}


@pytest.mark.parametrize("piece", [1, 7, 64, 4096, 10_000, 1 << 20])
@pytest.mark.parametrize("name", FILES)
def test_streaming_by_is_as_good_as_reading_anywhere(name: str, piece: int) -> None:
    content, device = FILES[name]
    assert device in content
    whole = facts(
        objects.LimitedReader(1, samples=True).read_objects("lib.so", MemorySource(content))
    )
    assert whole[0]
    assert stream(content, device, piece) == whole


@pytest.mark.parametrize("piece", [1, 100, 4096])
def test_bundles_are_found_at_pages(piece: int) -> None:
    content = NOISE.ljust(5 * 4096, b"\1") + HIP
    kept = see_all(DeviceScanner([(0, len(content))], len(content)), content, piece)
    assert kept[0] == 5 * 4096


def test_a_walk_that_goes_back_finds_nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def go_back(start: int, _end: int, _patience: int) -> Walk:
        yield Ask(start + 64, 8)
        yield Ask(start, 8)
        return start + 72

    monkeypatch.setattr(device_scanner, "walk_device_code", go_back)
    assert see_all(DeviceScanner([(0, len(CUDA))], len(CUDA)), CUDA, 16) == [64]


def test_nothing_is_searched_for_outside_of_the_regions() -> None:
    content = CUDA + bytes(8192) + CUDA
    kept = see_all(DeviceScanner([(len(CUDA) + 8192, len(content))], len(content)), content, 512)
    assert kept[0] == len(CUDA) + 8192


def test_the_inside_of_few_entries_is_kept() -> None:
    """Of 1,000 entries: the first 32, then 16 for each doubling of their number."""
    content = container(*[entry(payload=bytes(10_000))] * 1000)
    scanner = DeviceScanner([(0, len(content))], len(content))
    pieces = (content[start : start + 4096] for start in range(0, len(content), 4096))
    kept = sum(len(kept) for piece in pieces for _, kept in scanner.see(piece))
    assert 112 * 10_000 < kept < 120 * 10_000


def see_all(scanner: DeviceScanner, content: bytes, piece: int) -> list[int]:
    """Return the offsets of what is kept."""
    starts = range(0, len(content), piece)
    kept = [part for start in starts for part in scanner.see(content[start : start + piece])]
    assert all(content[at : at + len(part)] == part for at, part in kept)
    offsets = [at for at, _ in kept]
    assert offsets == sorted(offsets)
    return offsets
