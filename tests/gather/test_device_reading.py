"""The inside of a package's device code, read from its file once more."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks import examine, watchdog
from binary_checks.errors import TooLarge
from binary_checks.gather.device_reading import read_device_details
from binary_checks.gather.member_contents import MemberContents
from binary_checks.knowledge.device_code import Carrier
from binary_checks.model import (
    DeviceCodeRequest,
    DeviceDetails,
    DeviceKind,
    DeviceTarget,
    DeviceToolkits,
    ObjectDetails,
    Package,
    ToolkitSample,
    UnreadDeviceCode,
)
from binary_checks.objects.device import entries
from binary_checks.profile import Profile, enable_thorough
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import CUBIN, PTX, ZSTD, archive, compressed_entry, container, entry
from fixtures.build_wheel import build_wheel
from fixtures.samples import read_fatbin_sample

zstandard = pytest.importorskip("zstandard")
pytest.importorskip("lz4.block")

LOOSE = read_fatbin_sample("12.4_sm_90a.cubin")
LIBRARY = "lib/python3.11/site-packages/demo/libdemo.so"
OLD, NEW = read_fatbin_sample("toolkit_12.4.fatbin"), read_fatbin_sample("toolkit_13.5.fatbin")


THOROUGH = Profile(requests={DeviceCodeRequest: DeviceCodeRequest(thorough=True)})


def read(folder: Path, members: dict[str, bytes]) -> DeviceDetails:
    with examine(build_wheel(folder, members=dict(members)), profile=THOROUGH) as facts:
        return facts.get(DeviceDetails)


def read_library(folder: Path, fatbin: bytes) -> ObjectDetails:
    library = build_elf(sections={".nv_fatbin": fatbin})
    (found,) = read(folder, {"demo/libdemo.so": library}).objects
    return found


def sass(architecture: str) -> DeviceTarget:
    return DeviceTarget(kind=DeviceKind.SASS, architecture=architecture)


def ptx(architecture: str) -> DeviceTarget:
    return DeviceTarget(kind=DeviceKind.PTX, architecture=architecture)


def test_cubins_are_told_apart_by_target_and_toolkit_and_the_first_is_placed(
    tmp_path: Path,
) -> None:
    library = build_elf(sections={".nv_fatbin": OLD + NEW + NEW})
    (found,) = read(tmp_path, {"demo/libdemo.so": library}).objects
    assert found.path == LIBRARY
    assert [(each.target, each.toolkit, each.count) for each in found.cubins] == [
        (sass("sm_75"), "13.5", 2),
        (sass("sm_80"), "12.4", 1),
        (sass("sm_90a"), "12.4", 1),
        (sass("sm_90a"), "13.5", 2),
    ]
    assert [(each.target, each.version, each.count) for each in found.ptx] == [
        (ptx("sm_120f"), "9.5", 2),
        (ptx("sm_90"), "8.4", 1),
    ]
    start = library.index(NEW[:64])
    assert found.cubins[0].first == start + 16
    assert found.ptx[0].first > start
    assert found.unread == ()


def test_every_kind_of_file_with_device_code_is_read(tmp_path: Path) -> None:
    one = read_fatbin_sample("one.fatbin")
    library = build_elf(sections={".nv_fatbin": one})
    found = read(
        tmp_path,
        {
            "demo/plain.so": build_elf(),
            "demo/libdemo.so": library,
            "demo/libdemo.a": archive(one_o=library),
            "demo/kernels.fatbin": one,
            "demo/kernels.cubin": LOOSE,
        },
    )
    paths = [(each.path.rpartition("/")[2], each.cubins[0]) for each in found.objects]
    expected = {"libdemo.so": "", "libdemo.a": "one.o", "kernels.fatbin": "", "kernels.cubin": ""}
    assert {name: group.member for name, group in paths} == expected
    assert {(name, group.target.architecture, group.toolkit) for name, group in paths} == {
        ("libdemo.so", "sm_90", "13.5"),
        ("libdemo.a", "sm_90", "13.5"),
        ("kernels.fatbin", "sm_90", "13.5"),
        ("kernels.cubin", "sm_90a", "12.4"),
    }
    assert read(tmp_path / "plain", {"demo/plain.so": build_elf()}) == DeviceDetails()


def test_what_is_broken_hides_nothing_that_is_not(tmp_path: Path) -> None:
    text = zstandard.compress(b".version 8.4\n.target sm_90\n")
    fatbin = container(
        compressed_entry(text, 27, ZSTD, PTX),
        compressed_entry(text, 20, ZSTD, PTX),
        compressed_entry(text[:-2], 27, ZSTD, PTX),
        entry(CUBIN, 90, b"no cubin"),
        entry(CUBIN, 87, LOOSE),
        entry(CUBIN, 90, LOOSE),
        entry(CUBIN, 90, LOOSE[:8] + b"\x09" + LOOSE[9:]),
        entry(CUBIN, 90, point_beyond_end(LOOSE)),
    )
    found = read_library(tmp_path, fatbin)
    assert [(each.version, each.count) for each in found.ptx] == [("8.4", 1)]
    assert [(each.target, each.count) for each in found.cubins] == [
        (sass("sm_90"), 1),  # of a later ABI: by its head
        (sass("sm_90a"), 2),
    ]
    assert [(each.reason, each.broken) for each in found.unread] == [
        ("it unpacks to more than the 20 bytes that its head claims", True),
        ("it unpacks to 25 bytes, but its head claims 27", True),
        ("it is not a cubin: it begins with b'no c'", True),
        ("its head says sm_87, but its cubin says sm_90a", True),
        ("a cubin of an unknown ABI", False),
        ("a section of 1048576 bytes lies beyond the end of the cubin", True),
    ]
    assert {each.count for each in found.unread} == {1}


def point_beyond_end(cubin: bytes) -> bytes:
    """Its section headers come last, so they are moved to where the cut one still has them."""
    broken = bytearray(cubin)
    rows = int.from_bytes(broken[40:48], "little")
    first_with_bytes = next(
        at for at in range(rows + 64, len(broken), 64) if broken[at + 4 : at + 8] == b"\3\0\0\0"
    )
    broken[first_with_bytes + 32 : first_with_bytes + 40] = (1 << 20).to_bytes(8, "little")
    return bytes(broken)


def test_many_reasons_are_not_told_apart_without_end(tmp_path: Path) -> None:
    text = zstandard.compress(b"x" * 1000)
    fatbin = container(*(compressed_entry(text, size, ZSTD, PTX) for size in range(300)))
    found = read_library(tmp_path, fatbin)
    assert len(found.unread) == 65
    assert sum(each.count for each in found.unread) == 300
    assert found.unread[-1].reason == "for more than 64 reasons"


def test_where_no_library_is_installed_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("zstandard", "compression.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    finder = entries._find_zstandard
    monkeypatch.setattr(entries, "_find_zstandard", finder.__wrapped__)
    (unread,) = read_library(tmp_path, read_fatbin_sample("one.fatbin")).unread
    reason = "it is compressed: pip install binary-checks[device]"
    offset = unread.offset
    assert unread == UnreadDeviceCode(offset=offset, count=1, reason=reason, lacking="device")
    counted = count(tmp_path / "counted", read_fatbin_sample("compressed_default.fatbin"))
    assert (counted.unread, counted.seen < counted.total) == (reason, True)


def test_an_entry_that_is_larger_than_the_limit_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "LARGEST", 1000)
    found = read_library(tmp_path, NEW)
    assert ("an entry of 1292 bytes; at most 1000 are read", True, False) in {
        (each.reason, each.too_large, each.broken) for each in found.unread
    }
    assert all(each.too_large for each in found.unread)


def test_a_package_of_bombs_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel of 20 kB has thousands, each of which unpacks to 256 MB and then to one byte more."""
    monkeypatch.setattr(watchdog, "SECONDS", 0.3)
    bomb = compressed_entry(zstandard.compress(bytes((64 << 20) + 1)), 64 << 20, ZSTD)
    with pytest.raises(TooLarge, match="takes more CPU time than the package's size allows"):
        read_library(tmp_path, container(*[bomb] * 100))


def test_no_library_is_imported_for_a_package_without_device_code(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, members={"demo/plain.so": build_elf()})
    code = (
        "import sys\n"
        "from binary_checks import examine\n"
        "from binary_checks.model.device import DeviceDetails\n"
        f"with examine({str(path)!r}) as facts: facts.get(DeviceDetails)\n"
        "print([name for name in ('zstandard', 'lz4') if name in sys.modules])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize("name", ["one.fatbin", "toolkit_12.4.fatbin", "compressed_default.fatbin"])
def test_damage_is_said_alike_of_a_sample_and_of_everything(tmp_path: Path, name: str) -> None:
    content = bytearray(read_fatbin_sample(name))
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    library = build_elf(sections={".nv_fatbin": bytes(content)})
    with examine(build_wheel(tmp_path, members={"demo/libdemo.so": library})) as facts:
        sampled = facts.get(DeviceDetails)
    assert sampled == read(tmp_path, {"demo/libdemo.so": library})
    assert sampled.objects


@pytest.mark.parametrize(("thorough", "inspected"), [(False, 32), (True, 120)])
def test_a_sample_is_spread_over_all_of_an_object_and_a_thorough_run_reads_everything(
    tmp_path: Path, thorough: bool, inspected: int
) -> None:
    """40 containers with two cubins and a text of PTX each: 16 of each kind."""
    library = build_elf(sections={".nv_fatbin": NEW * 40})
    wheel = build_wheel(tmp_path, members={"demo/libdemo.so": library})
    profile = THOROUGH if thorough else Profile()
    with examine(wheel, profile=profile) as facts:
        (found,) = facts.get(DeviceDetails).objects
    assert (found.entries, found.inspected) == (120, inspected)
    assert sum(each.count for each in (*found.cubins, *found.ptx)) == inspected


def test_a_sample_is_taken_while_the_package_is_read(tmp_path: Path) -> None:
    """A large member streams by, and the file is not there any more when it is asked about."""
    library = build_elf(sections={".nv_fatbin": NEW * 40, ".noise": bytes(1 << 20)})
    wheel = build_wheel(tmp_path, members={"demo/libdemo.so": library})
    with examine(wheel) as facts:
        facts.get(Package)
        wheel.unlink()
        (found,) = facts.get(DeviceDetails).objects
    assert (found.path, found.inspected) == (LIBRARY, 32)


def test_the_same_sample_is_taken_where_none_came_with_the_objects(tmp_path: Path) -> None:
    library = build_elf(sections={".nv_fatbin": NEW * 40})
    members = {"demo/libdemo.so": library, "demo/kernels.fatbin": OLD}
    with examine(build_wheel(tmp_path, members=dict(members))) as facts:
        package, sampled = facts.get(Package), facts.get(DeviceDetails)
        carriers = [each for each in package.objects if isinstance(each, Carrier)]
        bare = replace(
            package, objects=tuple(replace(each, device_sample=None) for each in carriers)
        )
        contents = facts.get(MemberContents)
        again = read_device_details(bare, contents, Profile(), DeviceCodeRequest())
    assert again == sampled
    assert len(again.objects) == 2


def test_the_option_for_a_thorough_run_has_all_device_code_decompressed() -> None:
    assert enable_thorough(Profile()).probes == {"device_code": {"thorough": True}}


# The toolkits and versions of PTX that a sample states.

OLDEST = read_fatbin_sample("toolkit_11.8.fatbin")


def count(folder: Path, fatbin: bytes) -> ToolkitSample:
    library = build_elf(sections={".nv_fatbin": fatbin})
    with examine(build_wheel(folder, members={"demo/libdemo.so": library})) as facts:
        (found,) = facts.get(DeviceToolkits).samples
    return found


def test_toolkits_and_versions_of_ptx_are_counted(tmp_path: Path) -> None:
    found = count(tmp_path, NEW + OLDEST + NEW)
    assert found.path == LIBRARY
    assert [version for version, _ in found.toolkits] == ["13.5", "11.8"]
    assert {version for version, _ in found.ptx} == {"9.5", "7.8"}
    assert found.seen == found.total
    assert not found.unread


def test_the_sample_is_spread_over_all_of_a_large_object(tmp_path: Path) -> None:
    """The last of many containers shows that most are another toolkit's, and not all are read."""
    found = count(tmp_path, OLDEST * 40 + NEW * 40)
    counted = dict(found.toolkits)
    assert 0 < sum(counted.values()) <= 16
    assert counted["13.5"] >= 4
    assert counted["11.8"] >= 4
    assert found.seen < found.total


def test_code_that_is_damaged_is_said_to_be_unread(tmp_path: Path) -> None:
    content = bytearray(NEW)
    start = content.index(b"\x28\xb5\x2f\xfd")  # the first frame of Zstandard
    content[start + 8 : start + 24] = bytes(16)
    found = count(tmp_path, bytes(content))
    assert found.unread
    assert found.seen < found.total
