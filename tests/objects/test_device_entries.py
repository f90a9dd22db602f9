"""The entries of a CUDA container one by one, and what each unpacks to."""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from binary_checks.errors import BinaryChecksError, BrokenDataError, TooLarge
from binary_checks.model import DeviceKind
from binary_checks.objects.device import entries
from binary_checks.objects.device.entries import DeviceEntry, NotInstalled, list_entries
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import (
    CUBIN,
    LZ4,
    OLD_LZ,
    PTX,
    ZSTD,
    archive,
    compressed_entry,
    container,
    entry,
)
from fixtures.samples import read_fatbin_sample
from tests.objects.byte_sources import Bytes

TEXT = b".version 8.4\n.target sm_90\n" * 40
zstandard = pytest.importorskip("zstandard")
lz4 = pytest.importorskip("lz4.block")


def entries_of(content: bytes) -> list[DeviceEntry]:
    return list(list_entries(Bytes(content)))


def zstd(content: bytes) -> bytes:
    return bytes(zstandard.compress(content))


def block(content: bytes) -> bytes:
    return bytes(lz4.compress(content, store_size=False))


def only(content: bytes) -> DeviceEntry:
    (found,) = entries_of(container(content))
    return found


@pytest.mark.parametrize("mode", ["none", "speed", "balance", "default", "size"])
def test_code_unpacks_to_the_same_however_nvcc_compressed_it(mode: str) -> None:
    found = entries_of(read_fatbin_sample(f"compressed_{mode}.fatbin"))
    plain = entries_of(read_fatbin_sample("compressed_none.fatbin"))
    assert [(each.kind, each.architecture) for each in found] == [
        (DeviceKind.SASS, "sm_75"),
        (DeviceKind.SASS, "sm_90a"),
        (DeviceKind.LTO, "sm_90"),
        (DeviceKind.PTX, "sm_90"),
        (DeviceKind.PTX, "sm_120f"),
    ]
    for one, other in zip(found, plain, strict=True):
        if one.kind is not DeviceKind.LTO:
            assert one.unpack().rstrip(b"\0") == other.unpack().rstrip(b"\0")


def test_code_for_the_device_linker_is_scrambled_and_not_taken_for_broken() -> None:
    found = entries_of(read_fatbin_sample("compressed_size.fatbin"))[2]
    with pytest.raises(BinaryChecksError, match="it is scrambled"):
        found.unpack()


def test_entries_compressed_together_are_unpacked_one_by_one() -> None:
    found = entries_of(read_fatbin_sample("concatenated.fatbin"))
    assert [each.architecture for each in found] == ["sm_90", "sm_75", "sm_80", "sm_90a"]
    assert [each.unpack()[:4] for each in found[1:]] == [b"\x7fELF"] * 3
    assert [len(each.unpack()) for each in found] == [403, 3112, 3240, 3440]


@pytest.mark.parametrize(("flags", "compress"), [(ZSTD, zstd), (LZ4, block)])
@pytest.mark.parametrize("claimed", [len(TEXT) - 1, len(TEXT) + 1, 0, 1 << 27])
def test_code_that_is_larger_or_smaller_than_claimed_is_broken(
    flags: int, compress: Any, claimed: int
) -> None:
    with pytest.raises(BrokenDataError, match=r"it unpacks to|more bytes than it claims"):
        only(compressed_entry(compress(TEXT), claimed, flags)).unpack()


@pytest.mark.parametrize(("flags", "compress"), [(ZSTD, zstd), (LZ4, block)])
def test_code_that_is_cut_or_damaged_is_broken(flags: int, compress: Any) -> None:
    packed = compress(TEXT)
    for damaged in (packed[:-3], packed[: len(packed) // 2], b"", b"\xff" * len(packed)):
        with pytest.raises(BrokenDataError):
            only(compressed_entry(damaged, len(TEXT), flags)).unpack()


def test_a_bomb_is_not_unpacked_any_further_than_its_head_claims() -> None:
    bomb = zstd(bytes(64 << 20))
    with pytest.raises(BrokenDataError, match="more than the 1000 bytes that its head claims"):
        only(compressed_entry(bomb, 1000, ZSTD)).unpack()


@pytest.mark.parametrize("flags", [ZSTD, LZ4])
def test_what_claims_more_than_is_read_is_refused_before_anything_is_unpacked(flags: int) -> None:
    with pytest.raises(TooLarge, match="an entry unpacks to 1099511627776 bytes; at most"):
        only(compressed_entry(b"x", 1 << 40, flags)).unpack()


class Endless(Bytes):
    """A file that claims terabytes and has no bytes."""

    def read(self, offset: int, length: int) -> bytes:
        assert length < 1 << 20
        return super().read(offset, min(length, self.size - offset)) if offset < 200 else bytes(0)


@pytest.mark.parametrize("flags", [0, ZSTD, LZ4])
def test_an_entry_that_takes_more_than_is_read_is_refused_before_it_is_read(flags: int) -> None:
    size = 1 << 40
    head = bytearray(compressed_entry(b"", 100, flags))
    head[8:16] = size.to_bytes(8, "little")
    head[16:20] = b"\xff\xff\xff\x7f"  # the size of the compressed payload
    source = Endless(container(bytes(head), size=size + 64))
    source.size = size + 80
    (found,) = list_entries(source)
    with pytest.raises(TooLarge, match=r"an entry of \d+ bytes; at most 268435456 are read"):
        found.unpack()


def test_a_method_that_nobody_documents_is_not_inspected() -> None:
    with pytest.raises(BinaryChecksError, match="a method of NVIDIA's own"):
        only(compressed_entry(b"x", 10, OLD_LZ)).unpack()


@pytest.mark.parametrize(
    ("flags", "library", "finder"),
    [(ZSTD, "zstandard", "_find_zstandard"), (LZ4, "lz4.block", "_find_lz4")],
)
def test_a_library_that_is_not_installed_is_named_by_its_extra(
    monkeypatch: pytest.MonkeyPatch, flags: int, library: str, finder: str
) -> None:
    for name in (library, "compression.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(entries, finder, getattr(entries, finder).__wrapped__)
    with pytest.raises(NotInstalled, match=r"pip install binary-checks\[device\]"):
        only(compressed_entry(b"x", 10, flags)).unpack()


@pytest.mark.parametrize("broken", [False, True])
def test_the_parts_of_a_group_are_unpacked_together_once(
    monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    sample = bytearray(read_fatbin_sample("concatenated.fatbin"))
    if broken:
        frame = sample.index(b"\x28\xb5\x2f\xfd")
        sample[frame + 8 : frame + 24] = bytes(16)
    asked: list[int] = []
    monkeypatch.setattr(entries, "ask", asked.append)
    calls = []
    original = entries.unpack

    def unpack(*given: Any) -> bytes:
        calls.append(given)
        return original(*given)

    monkeypatch.setattr(entries, "unpack", unpack)
    counts: Counter[int] = Counter()  # parts by offset of a group
    faults: list[int] = []
    for each in list_entries(Bytes(bytes(sample))):
        counts[each.offset] += 1
        try:
            each.unpack()
        except BrokenDataError:
            faults.append(each.offset)
    assert len(calls) == len(asked) == len(counts) < counts.total()
    first, *_ = counts
    assert faults == ([first] * counts[first] if broken else [])


def test_a_part_beyond_what_its_group_unpacks_to_is_broken() -> None:
    sample = bytearray(read_fatbin_sample("concatenated.fatbin"))
    # the size of the last part, in the group's table
    at = sample.index((3440).to_bytes(8, "little"))
    sample[at : at + 8] = (1 << 20).to_bytes(8, "little")
    with pytest.raises(BrokenDataError, match="a part of 1048576 bytes lies beyond"):
        entries_of(bytes(sample))[-1].unpack()


def test_entries_of_every_container_and_member_are_listed_with_their_places() -> None:
    fatbin = container(entry(architecture=75), entry(PTX, 80))
    library = build_elf(sections={".nv_fatbin": fatbin + fatbin})
    found = entries_of(library)
    assert [(each.kind.value, each.architecture) for each in found] == [
        ("sass", "sm_75"),
        ("ptx", "sm_80"),
    ] * 2
    assert [library[each.offset : each.offset + 2] for each in found][:2] == [b"\2\0", b"\1\0"]
    members = entries_of(archive(one_o=library, two_o=build_elf()))
    assert [each.member for each in members] == ["one.o"] * 4


@pytest.mark.parametrize(("flags", "compress"), [(ZSTD, zstd), (LZ4, block)])
def test_several_threads_may_decompress_at_once(flags: int, compress: Any) -> None:
    texts = [f"{number} ".encode() * 300_000 for number in range(64)]
    content = container(*(compressed_entry(compress(text), len(text), flags) for text in texts))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(DeviceEntry.unpack, entries_of(content))) == texts


def test_a_loose_cubin_is_one_entry() -> None:
    cubin = entries_of(container(entry(CUBIN, 90, read_fatbin_sample("sm_90.cubin"))))[0].unpack()
    (found,) = entries_of(cubin)
    assert found.unpack() == cubin
