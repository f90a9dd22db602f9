"""Device code of ROCm: the targets that a bundle's table names."""

from __future__ import annotations

import pytest

from binary_checks.model import DeviceFile
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import bundle, compressed_bundle
from tests.objects.device_codes import entries, faults, groups, read_device

TARGETS = ["gfx90a:sramecc+:xnack-", "gfx1100"]
PLAIN = bundle(TARGETS)


def test_the_targets_of_a_library_are_listed_with_their_features() -> None:
    found = read_device(build_elf(sections={".hip_fatbin": PLAIN}))
    assert entries(found) == {"amdgpu gfx1100": 1, "amdgpu gfx90a:sramecc+:xnack-": 1}
    assert [(code.bytes, code.compressed) for code in found.device_code] == [(64, 0)] * 2
    assert found.device_faults == ()


def test_several_bundles_lie_at_pages() -> None:
    content = PLAIN.ljust(2 * 4096, b"\0") + bundle(["gfx1100"])
    found = read_device(build_elf(sections={".hip_fatbin": content}))
    assert groups(found) == [
        ("amdgpu gfx1100, amdgpu gfx90a:sramecc+:xnack-", 1, 0),
        ("amdgpu gfx1100", 1, 1),
    ]


def test_a_loose_bundle_is_device_code() -> None:
    found = read_device(PLAIN)
    assert isinstance(found, DeviceFile)
    assert found.architecture == "amdgpu"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_zlib_compressed_is_looked_into(version: int) -> None:
    content = compressed_bundle(PLAIN, version=version)
    found = read_device(content)
    assert entries(found) == {"amdgpu gfx1100": 1, "amdgpu gfx90a:sramecc+:xnack-": 1}
    assert [code.compressed for code in found.device_code] == [1, 1]
    assert sum(code.bytes for code in found.device_code) == len(content)


@pytest.mark.parametrize("version", [2, 3])
def test_the_next_bundle_is_found_behind_a_compressed_one(version: int) -> None:
    content = compressed_bundle(PLAIN, version=version)
    found = read_device(content.ljust(4096, b"\0") + content)
    assert [group.count for group in found.device_containers] == [2]


def test_what_zstd_compressed_is_unknown_with_the_reason() -> None:
    found = read_device(compressed_bundle(b"\x28\xb5\x2f\xfd", method=1))
    assert entries(found) == {"unknown": 1}
    assert found.device_containers[0].reason == "a bundle compressed as a whole (zstd)"
    assert found.device_faults == ()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"CCOB\x09\0\0\0" + bytes(32), "a compressed bundle of version 9"),
        (compressed_bundle(b"", method=5), "a bundle compressed as a whole (method 5)"),
        (compressed_bundle(b"no bundle"), "a bundle compressed as a whole (zlib)"),
    ],
)
def test_what_is_compressed_otherwise_is_unknown_too(content: bytes, reason: str) -> None:
    assert read_device(content).device_containers[0].reason == reason


def test_a_table_that_leads_out_of_the_file_is_a_fault() -> None:
    (fault,) = faults(PLAIN[:-1])
    assert fault.reason == "entry 3 of a bundle reaches beyond the end"
    assert entries(read_device(PLAIN[:-1])) == {"amdgpu gfx90a:sramecc+:xnack-": 1}


def test_a_table_of_impossible_length_is_a_fault() -> None:
    (fault,) = faults(PLAIN[:24] + b"\xff" * 8)
    assert fault.reason == f"a bundle claims {(1 << 64) - 1} code objects"
