"""All device code of a package is decompressed, and its heads are compared with what comes out."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import examine
from binary_checks.gather import device_decompression
from binary_checks.model.device_details import DeviceDetails, UnreadDeviceCode
from binary_checks.model.device_toolkits import DeviceToolkits
from binary_checks.model.device_unpacking import UnpackedDeviceCode
from binary_checks.objects.device import cubins
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import CUBIN, PTX, ZSTD, compressed_entry, container, entry
from fixtures.build_wheel import build_wheel
from fixtures.samples import read_fatbin_sample

zstandard = pytest.importorskip("zstandard")
pytest.importorskip("lz4.block")

NEW = read_fatbin_sample("toolkit_13.5.fatbin")
LOOSE = read_fatbin_sample("12.4_sm_90a.cubin")


def unpack(folder: Path, fatbin: bytes) -> list[tuple[str, bool, int]]:
    """Reason, whether it is the package's fault, and count of what could not be read."""
    return [(each.reason, each.broken, each.count) for each in list_unread(folder, fatbin)]


def list_unread(folder: Path, fatbin: bytes) -> tuple[UnreadDeviceCode, ...]:
    library = build_elf(sections={".nv_fatbin": fatbin})
    with examine(build_wheel(folder, members={"demo/libdemo.so": library})) as facts:
        (found,) = facts.get(UnpackedDeviceCode).objects
    return found.unread


@pytest.mark.parametrize("name", ["one.fatbin", "toolkit_11.8.fatbin", "toolkit_13.5.fatbin"])
def test_healthy_code_is_quiet(tmp_path: Path, name: str) -> None:
    assert unpack(tmp_path, read_fatbin_sample(name)) == []


def test_what_does_not_unpack_to_what_its_head_claims_is_broken(tmp_path: Path) -> None:
    text = zstandard.compress(b".version 8.4\n.target sm_90\n")
    fatbin = container(
        compressed_entry(text, 27, ZSTD, PTX),
        compressed_entry(text, 20, ZSTD, PTX),
        compressed_entry(text[:-2], 27, ZSTD, PTX),
        entry(CUBIN, 90, b"no cubin"),
        entry(PTX, 90, b"no PTX"),
    )
    assert unpack(tmp_path, fatbin) == [
        ("it unpacks to more than the 20 bytes that its head claims", True, 1),
        ("it unpacks to 25 bytes where its head claims 27", True, 1),
        ("it is no cubin, it begins with b'no c'", True, 1),
        ("it is no PTX, it has no .version that could be read", True, 1),
    ]


def test_a_head_that_names_another_architecture_than_its_cubin_is_broken(tmp_path: Path) -> None:
    fatbin = container(entry(CUBIN, 87, LOOSE), entry(CUBIN, 90, LOOSE))
    (found,) = unpack(tmp_path, fatbin)
    assert found[0].startswith("its head says sm_87, its cubin sm_90")
    assert found[1:] == (True, 1)


def test_a_cubin_of_a_later_abi_is_not_known_and_not_broken(tmp_path: Path) -> None:
    later = bytearray(LOOSE)
    later[8] = 9
    found = unpack(tmp_path, container(entry(CUBIN, 90, bytes(later))))
    assert found == [("a cubin of an ABI that is not known", False, 1)]


def test_a_cubin_whose_sections_lie_beyond_its_end_is_broken(tmp_path: Path) -> None:
    """Its section headers come last, so they are moved to where the cut one still has them."""
    broken = bytearray(LOOSE)
    rows = int.from_bytes(broken[40:48], "little")
    first_with_bytes = next(
        at for at in range(rows + 64, len(broken), 64) if broken[at + 4 : at + 8] == b"\3\0\0\0"
    )
    broken[first_with_bytes + 32 : first_with_bytes + 40] = (1 << 20).to_bytes(8, "little")
    found = unpack(tmp_path, container(entry(CUBIN, 90, bytes(broken))))
    reason = "a section of 1048576 bytes lies beyond the end of the cubin"
    assert found == [(reason, True, 1)]


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("MOST_UNPACKED", "the package's device code unpacks to more than 1000 bytes"),
        ("_MOST_READ", "the package's cubins have more than 1000 bytes of names and facts"),
    ],
)
def test_more_than_is_read_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, reason: str
) -> None:
    monkeypatch.setattr(device_decompression, limit, 1000)
    unread = list_unread(tmp_path, NEW)
    assert {(each.reason, each.too_large, each.broken) for each in unread} == {
        (reason, True, False)
    }


def test_the_kernels_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take longer than all else; the toolkits come of the same look at the package."""
    monkeypatch.delattr(cubins, "_read_kernels")
    library = build_elf(sections={".nv_fatbin": NEW})
    with examine(build_wheel(tmp_path, members={"demo/libdemo.so": library})) as facts:
        (unpacked,) = facts.get(UnpackedDeviceCode).objects
        (sample,) = facts.get(DeviceToolkits).samples
    assert unpacked.unread == ()
    assert sample.toolkits == (("13.5", 2),)


@pytest.mark.parametrize("name", ["one.fatbin", "toolkit_12.4.fatbin", "compressed_default.fatbin"])
def test_damage_is_said_in_the_words_of_the_details(tmp_path: Path, name: str) -> None:
    content = bytearray(read_fatbin_sample(name))
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    library = build_elf(sections={".nv_fatbin": bytes(content)})
    with examine(build_wheel(tmp_path, members={"demo/libdemo.so": library})) as facts:
        (unpacked,) = facts.get(UnpackedDeviceCode).objects
        (detailed,) = facts.get(DeviceDetails).objects
    assert unpacked.unread == detailed.unread
