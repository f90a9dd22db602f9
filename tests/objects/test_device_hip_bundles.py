"""ROCm's device code: the targets in a bundle's table."""

from __future__ import annotations

import pytest

from binary_checks.model import DeviceFile
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import bundle, compressed_bundle
from tests.objects.device_codes import entries, faults, groups, read_device

TARGETS = ["gfx90a:sramecc+:xnack-", "gfx1100"]
PLAIN = bundle(TARGETS)
FRAME = b"\x28\xb5\x2f\xfd" + b"any bytes" * 9  # begins like a zstd frame


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


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_zstd_compressed_is_there_and_its_targets_are_not_told(version: int) -> None:
    content = compressed_bundle(FRAME, version=version, method=1)
    found = read_device(content)
    assert entries(found) == {"amdgpu": 1}
    assert [(code.bytes, code.compressed) for code in found.device_code] == [(len(content), 1)]
    assert [group.reason for group in found.device_containers] == [
        "not read: a bundle of code for AMD's GPUs, compressed as a whole (zstd)"
    ]
    assert found.device_faults == ()


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("content", [FRAME, PLAIN], ids=["zstd", "zlib"])
def test_each_of_several_compressed_bundles_is_found(version: int, content: bytes) -> None:
    # Version 1 does not state its size: it ends at the next page that begins with a bundle.
    one = compressed_bundle(content, version=version, method=int(content is FRAME))
    found = read_device(one.ljust(2 * 4096, b"\0") + one)
    assert [group.count for group in found.device_containers] == [2]
    assert found.device_faults == ()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            b"CCOB\x09\0\0\0" + b"anything" * 9,
            "not read: a compressed bundle of version 9",
        ),
        (
            compressed_bundle(b"", method=5),
            "not read: a bundle of code for AMD's GPUs, compressed as a whole (method 5)",
        ),
    ],
)
def test_what_is_compressed_otherwise_is_counted_and_no_fault(content: bytes, reason: str) -> None:
    found = read_device(content)
    assert [(group.count, group.reason) for group in found.device_containers] == [(1, reason)]
    assert found.device_faults == ()


@pytest.mark.parametrize(
    "content", [compressed_bundle(b"no bundle"), compressed_bundle(PLAIN)[:24] + b"no zlib stream"]
)
def test_what_zlib_did_not_make_is_a_fault(content: bytes) -> None:
    assert "does not unpack to a bundle" in faults(content)[-1].reason


def test_a_table_that_leads_out_of_the_file_is_a_fault() -> None:
    (fault,) = faults(PLAIN[:-1])
    assert fault.reason == "entry 3 of a bundle reaches beyond the end"
    assert entries(read_device(PLAIN[:-1])) == {"amdgpu gfx90a:sramecc+:xnack-": 1}


def test_a_table_of_impossible_length_is_a_fault() -> None:
    (fault,) = faults(PLAIN[:24] + b"\xff" * 8 + PLAIN[32:])
    size = len(PLAIN) - 32
    assert (
        fault.reason
        == f"a bundle claims {(1 << 64) - 1} code objects, but only {size} bytes are left"
    )


def test_what_only_begins_as_a_bundle_is_a_fault() -> None:
    content = build_elf(sections={".hip_fatbin": b"__CLANG_OTHER_KIND_OF_THING___".ljust(64)})
    (fault,) = faults(content)
    assert fault.reason == "bytes that begin like a bundle are not a bundle"
