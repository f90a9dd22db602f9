"""Relocatable device code: linked, to be linked by the driver, or unusable."""

from __future__ import annotations

import struct

import pytest

from binary_checks.knowledge.device_code import serves
from binary_checks.model import DeviceKind, DeviceLinking, DeviceTarget
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import LTO, PTX, container, entry
from fixtures.samples import expected_linking, read_fatbin_sample, read_pe_sample
from fixtures.samples.relocatable_recipes import ASKED
from tests.objects.device_codes import WithDeviceCode, faults, read_device
from tests.objects.pe_sections import address_of_next, append_section

WRAPPER = struct.Struct("<IIQQ")
MAGIC = 0x466243B1
RELATIVE = 8  # R_X86_64_RELATIVE
LIBRARIES = expected_linking()
BOTH = container(entry(architecture=80), entry(PTX, 90))
ONE = container(entry(architecture=80), entry(LTO, 90))
LINKED = container(entry(architecture=80))


def told(found: WithDeviceCode) -> list[str]:
    """Return the rows of device code as a table shows them."""
    return [
        f"{code.linking.value} {code.kind.value} {code.architecture} {code.count}"
        for code in found.device_code
    ]


def target(name: str) -> DeviceTarget:
    kind = "ptx" if name.startswith("compute") else "sass"
    return DeviceTarget(kind=DeviceKind(kind), architecture=f"sm_{name.partition('_')[2]}")


@pytest.mark.parametrize("name", LIBRARIES)
def test_what_is_linked_is_what_the_library_registers_so_when_it_is_loaded(name: str) -> None:
    linked = [row["container"] for row in LIBRARIES[name] if row["version"] == 2]
    groups = read_device(read_fatbin_sample(name)).device_containers
    ours = [group for group in groups if group.linking is DeviceLinking.LINKED]
    assert sum(group.count for group in ours) == len(linked)
    assert {group.offset for group in ours} <= set(linked)


@pytest.mark.parametrize("name", sorted({*LIBRARIES} - {"two_links.so"}))
def test_the_driver_can_link_for_the_same_gpus_as_nvjitlink(name: str) -> None:
    (expected,) = (row["links_for"] for row in LIBRARIES[name] if row["version"] == 2)
    groups = read_device(read_fatbin_sample(name)).device_containers
    (linked,) = (group for group in groups if group.linking is DeviceLinking.LINKED)
    ours = [gpu for gpu in ASKED if any(serves(t, target(gpu)) for t in linked.relinkable)]
    assert ours == expected


def test_each_entry_is_counted_once_with_what_it_is_good_for() -> None:
    found = read_device(read_fatbin_sample("uneven.so"))
    assert told(found) == [
        "unusable lto sm_90 1",
        "relinkable ptx sm_80 1",
        "linked sass sm_80 1",
        "relinkable sass sm_80 2",
        "unusable sass sm_90 1",
    ]
    (start, end) = (min(g.offset for g in found.device_containers), found.size)
    assert sum(code.bytes for code in found.device_code) < end - start


def test_code_that_was_compiled_whole_stays_so_beside_relocatable_code() -> None:
    found = read_device(read_fatbin_sample("linked.so"))
    assert "whole sass sm_80 1" in told(found)
    whole, linked, relocatable = found.device_containers
    assert [target.architecture for target in whole.usable] == ["sm_80"]
    assert [(t.kind.value, t.architecture) for t in linked.usable] == [
        ("ptx", "sm_90"),
        ("sass", "sm_80"),
        ("sass", "sm_90"),
    ]
    assert relocatable.linking is DeviceLinking.RELINKABLE
    assert relocatable.usable == ()  # it counts in the linked container


def test_what_only_the_device_linker_takes_is_of_no_use_to_a_driver() -> None:
    assert told(read_device(read_fatbin_sample("lto.so"))) == [
        "unusable lto sm_80 2",
        "linked sass sm_80 1",
    ]


def test_of_two_links_nobody_knows_which_relocatable_code_belongs_to_which() -> None:
    found = read_device(read_fatbin_sample("two_links.so"))
    (linked,) = (g for g in found.device_containers if g.linking is DeviceLinking.LINKED)
    assert linked.count == 2
    # all four units have code for it
    assert [t.architecture for t in linked.relinkable] == ["sm_80"]
    assert linked.reason == (
        "only the driver finds out, when it loads the file, which of 2 linked containers uses "
        "which relocatable code"
    )


@pytest.mark.parametrize("name", ["awaiting.a", "awaiting_lto.a"])
def test_in_a_static_archive_it_awaits_the_device_linker(name: str) -> None:
    found = read_device(read_fatbin_sample(name))
    assert {code.linking for code in found.device_code} == {DeviceLinking.UNLINKED}
    assert {group.linking for group in found.device_containers} == {DeviceLinking.UNLINKED}


def test_relocatable_code_that_nothing_registers_is_of_no_use() -> None:
    found = read_device(build_elf(sections={"__nv_relfatbin": BOTH}))
    assert told(found) == ["unusable ptx sm_90 1", "unusable sass sm_80 1"]


def image(*wrappers: tuple[int, str, int], relocatable: bytes = BOTH + ONE) -> bytes:
    """Build a DLL with two relocatable units and these wrappers: version, section, offset."""
    whole, places = read_pe_sample("plain.dll"), {}
    for name, content in (("__nv_rel", relocatable), (".nv_fatb", LINKED)):
        places[name] = address_of_next(whole)
        whole = append_section(whole, name, content)
    rows = [
        WRAPPER.pack(MAGIC, version, places.get(section, 0) + offset, 0)
        for version, section, offset in wrappers
    ]
    return append_section(whole, ".nvFatBi", b"".join(rows))


def test_pointers_of_an_image_for_windows_are_followed() -> None:
    found = read_device(image((1, "__nv_rel", 0), (1, "__nv_rel", len(BOTH)), (2, ".nv_fatb", 0)))
    assert told(found) == [
        "unusable lto sm_90 1",
        "unusable ptx sm_90 1",
        "linked sass sm_80 1",
        "relinkable sass sm_80 2",
    ]


# Damaged input.


def test_a_wrapper_that_points_outside_is_a_fault() -> None:
    found = read_device(image((1, "nowhere", 1 << 40), (2, ".nv_fatb", 0)))
    (fault,) = found.device_faults
    assert fault.reason == "a wrapper points to device code outside of the file"


def test_a_wrapper_of_a_new_version_leaves_it_open_what_is_linked() -> None:
    found = read_device(image((3, "__nv_rel", 0)))
    reasons = {group.reason for group in found.device_containers if group.offset and group.reason}
    assert reasons == {"a wrapper of device code has the version 3"}


def test_a_wrapper_that_points_at_the_wrappers_is_a_fault() -> None:
    found = read_device(image((1, "__nv_rel", 8), (2, ".nv_fatb", 0)))
    (fault,) = found.device_faults
    assert fault.reason == "a wrapper points to bytes that are not a container of device code"


def test_what_is_no_wrapper_is_a_fault() -> None:
    whole = image((2, ".nv_fatb", 0))
    broken = whole.replace(struct.pack("<II", MAGIC, 2), struct.pack("<II", MAGIC + 1, 2))
    (fault,) = faults(broken)
    assert fault.reason == "there are other bytes in the place of a wrapper of device code"


def test_a_relocation_that_moves_a_pointer_decides() -> None:
    whole = read_fatbin_sample("linked.so")
    (row,) = (row for row in LIBRARIES["linked.so"] if row["version"] == 2)
    moved = struct.pack("<QQ", RELATIVE, row["container"])
    assert whole.count(moved) == 1
    outside = whole.replace(moved, struct.pack("<QQ", RELATIVE, 1 << 40))
    found = read_device(outside)
    assert [fault.reason for fault in found.device_faults] == [
        "a wrapper points to device code outside of the file"
    ]
    assert not any(g.linking is DeviceLinking.LINKED for g in found.device_containers)


def test_a_pointer_that_a_symbol_fills_in_is_not_followed() -> None:
    whole = read_fatbin_sample("linked.so")
    (row,) = (row for row in LIBRARIES["linked.so"] if row["version"] == 2)
    moved = struct.pack("<QQ", RELATIVE, row["container"])
    found = read_device(whole.replace(moved, struct.pack("<QQ", 1, row["container"])))
    assert "a wrapper of device code points to a symbol, which is not followed" in {
        group.reason for group in found.device_containers
    }


@pytest.mark.parametrize(
    ("code", "wanted", "answer"),
    [
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False),
        ("sm_90", "sm_90a", True),
        ("sm_90a", "sm_90", False),
        ("sm_100f", "sm_103", True),
        ("compute_80", "sm_90a", True),
        ("compute_90", "compute_80", False),
        ("compute_80", "compute_90", True),
        ("sm_90", "compute_90", False),
        ("compute_90a", "sm_90a", True),
        ("compute_120f", "sm_121", True),
        ("compute_120f", "compute_121", False),
    ],
)
def test_code_serves_the_gpus_that_nvjitlink_links_it_for(
    code: str, wanted: str, answer: bool
) -> None:
    assert serves(target(code), target(wanted)) is answer


def test_all_sections_of_wrappers_are_read() -> None:
    wrapper = WRAPPER.pack(MAGIC, 1, 0, 0)
    sections = {"__nv_relfatbin": BOTH}
    content = build_elf(sections={**sections, **{f".fake{n:011}": wrapper for n in range(17)}})
    for number in range(17):
        content = content.replace(f".fake{number:011}".encode(), b".nvFatBinSegment"[:16])
    (group,) = read_device(content).device_containers
    assert group.reason == ""


@pytest.mark.parametrize(("older", "newer", "linked"), [(80, 86, True), (100, 103, False)])
def test_a_cubin_of_an_older_gpu_is_not_sure_to_be_linked_on_blackwell(
    older: int, newer: int, linked: bool
) -> None:
    units = container(entry(architecture=older)), container(entry(architecture=newer))
    found = read_device(
        image(
            (1, "__nv_rel", 0),
            (1, "__nv_rel", len(units[0])),
            (2, ".nv_fatb", 0),
            relocatable=b"".join(units),
        )
    )
    (group,) = (g for g in found.device_containers if g.linking is DeviceLinking.LINKED)
    expected = [f"sm_{newer}"] if linked else []
    assert [target.architecture for target in group.relinkable] == expected
