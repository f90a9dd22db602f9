"""CUDA's device code: every container and entry, by architecture, without decompressing."""

from __future__ import annotations

import struct

import pytest

from binary_checks.model import DeviceFile, ElfFile, Format, Kind
from binary_checks.objects import LimitedSource
from binary_checks.objects.device.containers import Container
from binary_checks.objects.device.sections import walk_device_code
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import CUBIN, FAMILY, LTO, PTX, VARIANT, ZSTD, container, entry
from fixtures.samples import (
    FOLDER,
    expected_device_code,
    expected_device_details,
    read_fatbin_sample,
)
from fixtures.samples.fatbin_recipes import FILES
from tests.objects.byte_sources import Bytes
from tests.objects.device_codes import entries, groups, read_device

BOTH = container(entry(architecture=75), entry(architecture=90))
NEWER = container(entry(architecture=90))


def test_every_recipe_has_its_sample_and_its_facts() -> None:
    names = sorted(FILES)
    assert sorted(path.name for path in (FOLDER / "fatbin").iterdir()) == names
    assert sorted(expected_device_code()) == names


@pytest.mark.parametrize(("name", "expected"), expected_device_code().items())
def test_cuobjdump_lists_the_same(name: str, expected: dict[str, int]) -> None:
    # cuobjdump has no word for LTO, and names a cubin for a family only by its architecture.
    ours = {
        target.removesuffix("f") if target.startswith("sass") else target: count
        for target, count in entries(read_device(read_fatbin_sample(name))).items()
        if not target.startswith("lto")
    }
    assert ours == expected


@pytest.mark.parametrize(
    ("mode", "compressed"), [("none", 0), ("speed", 3), ("balance", 3), ("default", 3), ("size", 5)]
)
def test_compression_hides_no_architecture(mode: str, compressed: int) -> None:
    found = read_device(read_fatbin_sample(f"compressed_{mode}.fatbin"))
    assert entries(found) == {
        "lto sm_90": 1,
        "ptx sm_120f": 1,
        "ptx sm_90": 1,
        "sass sm_75": 1,
        "sass sm_90a": 1,
    }
    assert sum(code.compressed for code in found.device_code) == compressed
    assert sum(code.bytes for code in found.device_code) == found.size - 16


def test_entries_that_are_compressed_together_are_told_apart() -> None:
    found = read_device(read_fatbin_sample("concatenated.fatbin"))
    names = [code.architecture for code in found.device_code]
    assert names == ["sm_90", "sm_75", "sm_80", "sm_90a"]
    assert all(code.compressed == 1 for code in found.device_code)
    assert sum(code.bytes for code in found.device_code) == found.size - 16


def test_a_container_with_fewer_architectures_is_seen() -> None:
    found = read_device(read_fatbin_sample("missing_architecture.fatbin"))
    assert groups(found) == [("sass sm_75, sass sm_90", 2, 0), ("sass sm_90", 1, 1)]
    assert [group.offset for group in found.device_containers] == [0, 1840]
    assert found.device_faults == ()


def test_a_loose_container_is_device_code_and_nothing_for_a_host() -> None:
    found = read_device(read_fatbin_sample("ptx_only.fatbin"))
    assert isinstance(found, DeviceFile)
    assert (found.format, found.kind, found.architecture) == (Format.DEVICE, Kind.DEVICE, "cuda")


@pytest.mark.parametrize("section", [".nv_fatbin", "__nv_relfatbin"])
def test_sections_of_a_library_are_read(section: str) -> None:
    found = read_device(build_elf(sections={section: BOTH + bytes(40) + NEWER}))
    assert isinstance(found, ElfFile)
    assert entries(found) == {"sass sm_75": 1, "sass sm_90": 2}
    assert groups(found) == [("sass sm_75, sass sm_90", 1, 0), ("sass sm_90", 1, 1)]


def test_containers_of_all_sections_are_numbered_together() -> None:
    library = build_elf(sections={".nv_fatbin": BOTH, ".hip_fatbin": BOTH + NEWER})
    assert groups(read_device(library)) == [
        ("sass sm_75, sass sm_90", 2, 0),
        ("sass sm_90", 1, 2),
    ]


def test_other_sections_are_not_read() -> None:
    assert read_device(build_elf(sections={".rodata2": BOTH})).device_code == ()


@pytest.mark.parametrize("gap", [0, 8, 56, 64, 4096, 5000 * 8])
def test_padding_is_passed_over(gap: int) -> None:
    found = read_device(NEWER + bytes(gap) + NEWER + bytes(gap))
    assert groups(found) == [("sass sm_90", 2, 0)]
    assert found.device_faults == ()


@pytest.mark.parametrize(
    ("flags", "architecture"),
    [(0, "sm_90"), (VARIANT, "sm_90a"), (FAMILY, "sm_90f"), (VARIANT | FAMILY, "sm_90?")],
)
@pytest.mark.parametrize(("kind", "word"), [(CUBIN, "sass"), (PTX, "ptx"), (LTO, "lto")])
def test_the_suffix_stands_in_the_flags(
    kind: int, word: str, flags: int, architecture: str
) -> None:
    found = read_device(container(entry(kind, flags=0x11 | flags)))
    assert entries(found) == {f"{word} {architecture}": 1}


def test_bytes_are_those_of_heads_and_payloads() -> None:
    (code,) = read_device(
        container(entry(payload=bytes(8)), entry(payload=bytes(16), flags=0x11 | ZSTD))
    ).device_code
    assert (code.count, code.bytes, code.compressed) == (2, 64 + 8 + 64 + 16, 1)


def test_an_unknown_kind_is_counted_with_its_architecture() -> None:
    found = read_device(container(entry(kind=64), entry()))
    assert entries(found) == {"sass sm_90": 1, "unknown sm_90": 1}
    assert found.device_containers[0].reason == "entries of an unknown kind or version"
    assert found.device_faults == ()


@pytest.mark.parametrize(
    ("fields", "target"),
    [
        ({"version": 0x202}, "unknown"),
        ({"architecture": 0}, "unknown"),
        ({"architecture": 1}, "sass sm_1"),
        ({"architecture": 9999}, "sass sm_9999"),
        ({"architecture": 10_000}, "unknown"),
    ],
)
def test_an_unknown_version_or_architecture_of_an_entry_is_counted(
    fields: dict[str, int], target: str
) -> None:
    assert entries(read_device(container(entry(**fields)))) == {target: 1}


def test_a_container_of_another_version_is_counted_and_the_next_is_found() -> None:
    other = container(b"whatever it may mean" * 20, version=7)
    library = build_elf(sections={".nv_fatbin": other + bytes(64) + NEWER})
    found = read_device(library)
    assert groups(found) == [("unknown", 1, 0), ("sass sm_90", 1, 1)]
    assert found.device_containers[0].reason == "a container of version 7"
    assert found.device_faults == ()  # what should follow its head is unknown


def test_a_container_of_the_old_format_is_counted() -> None:
    library = build_elf(sections={".nv_fatbin": container(magic=0x1EE55A01)})
    assert read_device(library).device_containers[0].reason == "a container of an old format"


def test_an_empty_container_is_one_for_no_target() -> None:
    found = read_device(container() + NEWER + container())
    assert groups(found) == [("", 2, 0), ("sass sm_90", 1, 1)]
    assert found.device_faults == ()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("sm_80.cubin", "sass sm_80"),
        ("sm_90.cubin", "sass sm_90"),
        ("sm_90a.cubin", "sass sm_90a"),
        ("sm_100f.cubin", "sass sm_100f"),
    ],
)
def test_a_loose_cubin_says_how_it_was_compiled(name: str, target: str) -> None:
    found = read_device(read_fatbin_sample(name))
    assert (found.kind, entries(found), groups(found)) == (
        *(Kind.DEVICE, {target: 1}),
        [(target, 1, 0)],
    )


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("sm_80.cubin", "sass sm_80"),
        ("sm_90.cubin", "sass sm_90"),  # an attribute marks code for one GPU only
        ("sm_90a.cubin", "sass sm_90a"),
        ("sm_100f.cubin", "sass sm_100?"),  # ``f`` or no suffix: cannot be told apart
        ("12.9_sm_120.cubin", "sass sm_120?"),  # without that attribute
    ],
)
def test_without_that_its_suffix_is_undetermined(name: str, target: str) -> None:
    content = read_fatbin_sample(name).replace(b".note.nv.tkinfo", b".note.nv.others")
    assert entries(read_device(content)) == {target: 1}


@pytest.mark.parametrize(
    ("version", "flags", "target"),
    [
        (7, 0x5A055A, "sass sm_90"),  # ptxas 12.9
        (7, 0x5A0D5A, "sass sm_90a"),
        (8, 0x600640A, "sass sm_100a"),
        (9, 0x600640A, "unknown"),
    ],
)
def test_flags_of_a_cubin_count_by_its_abi(version: int, flags: int, target: str) -> None:
    content = bytearray(read_fatbin_sample("sm_90a.cubin"))
    content[8] = version
    struct.pack_into("<I", content, 48, flags)
    assert entries(read_device(bytes(content))) == {target: 1}


@pytest.mark.parametrize(
    "name", [name for name in expected_device_details() if name.endswith(".cubin")]
)
def test_the_suffix_of_a_loose_cubin_is_what_ptxas_was_asked_for(name: str) -> None:
    (expected,) = expected_device_details()[name]
    assert entries(read_device(read_fatbin_sample(name))) == {f"sass {expected['architecture']}": 1}


def test_sections_that_claim_the_same_bytes_are_gone_through_once() -> None:
    """A wheel of 20 kB may have a hundred thousand of them."""
    start = 64
    source = LimitedSource(Bytes(bytes(start) + BOTH))
    (found,) = walk_device_code(source, [(start, start + len(BOTH))] * 3)
    assert isinstance(found, Container)
    assert len(found.entries) == 2
