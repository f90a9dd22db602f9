"""The summary of a package: lines for people, the table of device code above all."""

from __future__ import annotations

from binary_checks.model import (
    DeviceCode,
    DeviceContainers,
    DeviceFault,
    DeviceKind,
    DeviceTarget,
    Format,
    MalformedObject,
)
from binary_checks.reports.summary import write_summary
from fixtures.values import elf_file, wheel


def sass(architecture: str, count: int, size: int) -> DeviceCode:
    return DeviceCode(
        kind=DeviceKind.SASS, architecture=architecture, count=count, bytes=size, compressed=count
    )


def group(count: int, *architectures: str) -> DeviceContainers:
    targets = (DeviceTarget(kind=DeviceKind.SASS, architecture=name) for name in architectures)
    return DeviceContainers(targets=tuple(targets), count=count)


def test_the_table_shows_how_many_containers_have_an_architecture() -> None:
    library = elf_file(
        "demo/lib.so",
        device_code=(sass("sm_100", 3, 3000), sass("sm_75", 1, 1000)),
        device_containers=(group(1, "sm_100", "sm_75"), group(2, "sm_100")),
    )
    *_, title, heading, older, newer = write_summary(wheel(objects=(library,)))
    assert title == "device code of demo/lib.so: 4,000 bytes (98% of 4,096)"
    assert heading.split() == [
        *("architecture", "kind", "entries", "compressed", "containers", "bytes")
    ]
    assert older.split() == ["sm_75", "sass", "1", "1", "1/3", "1,000"]
    assert newer.split() == ["sm_100", "sass", "3", "3", "3/3", "3,000"]


def test_several_libraries_are_added_up() -> None:
    one = elf_file(
        "a.so", device_code=(sass("sm_75", 1, 1000),), device_containers=(group(1, "sm_75"),)
    )
    other = elf_file(
        "b.so", device_code=(sass("sm_75", 2, 500),), device_containers=(group(2, "sm_75"),)
    )
    *_, title, _, row = write_summary(wheel(objects=(one, other)))
    assert title == "device code of all 2 together: 1,500 bytes (18% of 8,192)"
    assert row.split() == ["sm_75", "sass", "3", "3", "3/3", "1,500"]


def test_a_package_without_device_code_has_no_table() -> None:
    lines = list(write_summary(wheel(objects=(elf_file("a.so"),))))
    assert lines[1].split() == ["1", "ELF", "shared", "library"]
    assert len(lines) == 2


def test_what_could_not_be_read_is_said() -> None:
    fault = DeviceFault(offset=64, reason="cut off")
    malformed = MalformedObject(path="m.so", format=Format.ELF, offset=0, reason="no header")
    package = wheel(objects=(elf_file("a.so", device_faults=(fault,)),), malformed=(malformed,))
    *_, broken, damaged = write_summary(package)
    assert broken == "malformed: m.so: no header"
    assert damaged == "damaged device code: a.so: at byte 0x40: cut off"


def test_device_code_of_which_not_all_is_known_is_said() -> None:
    some = (
        DeviceContainers(count=2, offset=4096, reason="compressed as a whole"),
        DeviceContainers(count=1, offset=8192, reason="a container of version 7"),
        DeviceContainers(count=0, offset=9000, reason="no more heads are read"),
    )
    *_, one, two, three = write_summary(wheel(objects=(elf_file("a.so", device_containers=some),)))
    assert [one, two, three] == [
        "device code in doubt: a.so: 2 containers, the first at byte 0x1000: compressed as a whole",
        "device code in doubt: a.so: 1 container at byte 0x2000: a container of version 7",
        "device code in doubt: a.so: all from byte 0x2328 on: no more heads are read",
    ]
