"""Damaged device code is reported with its offset, and the rest is read nevertheless."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binary_checks.model import DeviceFile
from binary_checks.objects import read_objects
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import bundle, compressed_bundle, container, entry
from fixtures.samples import read_fatbin_sample
from tests.objects.byte_sources import Bytes
from tests.objects.device_codes import entries, faults, read_device

SAMPLES = {
    "every compression": read_fatbin_sample("compressed_speed.fatbin"),
    "entries in one": read_fatbin_sample("concatenated.fatbin"),
    "by hand": container(entry(), entry(kind=1), entry(kind=64)),
}
GOOD = container(entry(architecture=75))
_HUGE = (1 << 64) - 8


@pytest.mark.parametrize("content", SAMPLES.values(), ids=SAMPLES)
def test_a_container_cut_at_any_length_is_at_fault(content: bytes) -> None:
    for length in range(16, len(content)):
        assert faults(content[:length]), length


def test_what_lies_before_a_cut_is_read() -> None:
    found = read_device(container(entry(architecture=75), entry(architecture=90))[:-1])
    assert entries(found) == {"sass sm_75": 1}
    assert [fault.offset for fault in found.device_faults] == [0, 16 + 72]


@pytest.mark.parametrize("gap", [0, 8, 64, 4096])
def test_a_head_that_is_cut_is_at_fault(gap: int) -> None:
    (fault,) = faults(GOOD + bytes(gap) + GOOD[:12])
    assert (fault.offset, fault.reason) == (len(GOOD) + gap, "a container's head is cut off")


@pytest.mark.parametrize(
    ("size", "reason"),
    [*((size, f"a container of a head of {size} bytes") for size in (15, 65)), (64, "")],
)
def test_a_containers_head_may_be_longer(size: int, reason: str) -> None:
    head = struct.pack("<IHHQ", 0xBA55ED50, 1, size, 72).ljust(size, b"\0")
    assert [group.reason for group in read_device(head + entry()).device_containers] == [reason]


@pytest.mark.parametrize("size", [len(GOOD) + 8, 1 << 31, 1 << 63, _HUGE])
def test_a_containers_size_that_leads_out_of_its_section_is_a_fault(size: int) -> None:
    library = build_elf(sections={".nv_fatbin": container(entry(), size=size)})
    found = read_device(library)
    assert f"a container of {size} bytes" in found.device_faults[0].reason
    assert entries(found) == {"sass sm_90": 1}


@pytest.mark.parametrize("size", [16, 1 << 32, _HUGE])
def test_an_entrys_size_that_leads_out_of_its_container_is_a_fault(size: int) -> None:
    content = container(entry(architecture=75), entry(size=size)) + GOOD
    found = read_device(content)
    assert entries(found) == {"sass sm_75": 2}
    assert [fault.offset for fault in found.device_faults] == [16 + 72]
    assert f"64 + {size} bytes" in found.device_faults[0].reason


@pytest.mark.parametrize("head_size", [0, 8, 63, 0xFFFFFFFF])
def test_an_entry_whose_head_has_an_impossible_size_is_a_fault(head_size: int) -> None:
    found = read_device(container(entry(), entry(head_size=head_size)) + GOOD)
    assert entries(found) == {"sass sm_75": 1, "sass sm_90": 1}
    assert len(found.device_faults) == 1


def test_a_container_whose_first_entry_is_no_entry_hides_not_the_next() -> None:
    # Its size may be wrong too, and would skip the intact one.
    broken = container(bytes(64), size=64 + len(GOOD))
    found = read_device(broken + GOOD)
    assert entries(found) == {"sass sm_75": 1}
    assert found.device_faults


def test_bytes_that_are_no_container_are_a_fault() -> None:
    found = read_device(GOOD + b"\1" * 100 + bytes(4) + GOOD)
    assert entries(found) == {"sass sm_75": 2}
    (fault,) = found.device_faults
    assert (fault.offset, fault.reason) == (
        len(GOOD),
        "bytes that are neither a container nor padding",
    )


@pytest.mark.parametrize("rest", [1, 8, 15])
def test_a_rest_too_small_for_a_container_is_a_fault_unless_it_is_zeros(rest: int) -> None:
    assert faults(GOOD + bytes(rest)) == ()
    assert len(faults(GOOD + b"\1" * rest)) == 1


def test_a_section_of_other_bytes_is_a_fault_and_not_empty() -> None:
    found = read_device(build_elf(sections={".nv_fatbin": b"anything" * 10}))
    assert found.device_code == ()
    assert len(found.device_faults) == 1


@pytest.mark.parametrize("options", [0, 63, 60_000, 0xFFFFFFFF])
def test_entries_in_one_with_an_impossible_table_are_one_unknown(options: int) -> None:
    whole = entry(kind=0x100, architecture=0, payload=bytes(72))
    changed = whole[:20] + struct.pack("<I", options) + whole[24:]
    assert entries(read_device(container(changed))) == {"unknown": 1}


def test_many_faults_are_not_all_kept() -> None:
    content = GOOD + (container(bytes(64)) + bytes(8)) * 500
    assert len(faults(content)) == 64


@pytest.mark.parametrize(
    "content",
    [bundle(["gfx90a"]), compressed_bundle(bundle(["gfx90a"])), compressed_bundle(b"", method=1)],
)
def test_a_bundle_cut_at_any_length_never_raises(content: bytes) -> None:
    for length in range(len(content)):
        for found in read_objects("a.co", Bytes(content[:length])):
            assert isinstance(found, DeviceFile)
            assert found.device_faults or found.device_containers


@settings(deadline=None)
@given(st.data())
def test_changed_bytes_never_raise(data: st.DataObject) -> None:
    content = bytearray(SAMPLES[data.draw(st.sampled_from(sorted(SAMPLES)))])
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(6, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    read_device(bytes(content))
