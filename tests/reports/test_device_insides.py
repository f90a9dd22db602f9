"""The summary of what lies inside device code: toolkits and drivers."""

from __future__ import annotations

from dataclasses import replace

from binary_checks.model import (
    CubinGroup,
    DeviceDetails,
    DeviceKind,
    DeviceTarget,
    Layout,
    ObjectDetails,
    PtxGroup,
    UnreadDeviceCode,
)
from binary_checks.reports.summary import write_summary
from fixtures.values import elf_file, wheel


def cubins(toolkit: str, count: int, *names: str) -> tuple[CubinGroup, ...]:
    targets = (DeviceTarget(kind=DeviceKind.SASS, architecture=name) for name in names)
    return tuple(CubinGroup(target=each, toolkit=toolkit, count=count) for each in targets)


def say(item: ObjectDetails) -> list[str]:
    package = wheel(objects=(elf_file("demo/lib.so"),))
    details = DeviceDetails(objects=(item,))
    return list(write_summary(package, details=details))


def test_machine_code_stands_by_its_toolkit_with_the_driver_that_runs_it() -> None:
    item = ObjectDetails(
        path="demo/lib.so",
        cubins=(*cubins("13.2", 2, "sm_100", "sm_90a"), *cubins("12.4", 1, "sm_80")),
    )
    *_, title, old, new = say(item)
    assert title == "inside the device code of demo/lib.so:"
    assert (
        old == "  machine code of CUDA 12.4: 1 cubin for sm_80; runs on driver 525.60.13 and later"
    )
    assert new.startswith(
        "  machine code of CUDA 13.2: 4 cubins for sm_90a, sm_100; runs on driver "
    )
    *_, line = say(ObjectDetails(path="demo/lib.so", cubins=cubins("", 3, "sm_60")))
    assert line == "  machine code of a toolkit that is not stated: 3 cubins for sm_60"


def test_a_library_is_named_as_users_import_it() -> None:
    """Without the folder of the interpreter, like everywhere in the summary."""
    path = "lib/python3.11/site-packages/demo/lib.so"
    item = ObjectDetails(path=path, cubins=cubins("13.2", 1, "sm_90"))
    layout = Layout(site_packages="lib/python3.11/site-packages")
    package = replace(wheel(objects=(elf_file(path),)), layout=layout)
    *_, title, _ = write_summary(package, details=DeviceDetails(objects=(item,)))
    assert title == "inside the device code of demo/lib.so:"


def test_ptx_stands_by_its_version() -> None:
    target = DeviceTarget(kind=DeviceKind.PTX, architecture="sm_120")
    *_, line = say(ObjectDetails(path="x", ptx=(PtxGroup(target=target, version="9.0", count=3),)))
    assert line.startswith("  PTX 9.0: 3 texts for sm_120")


def test_what_was_not_read_and_what_is_broken_are_told_apart() -> None:
    item = ObjectDetails(
        path="x",
        unread=(
            UnreadDeviceCode(offset=64, count=1, reason="cut", broken=True),
            UnreadDeviceCode(offset=128, count=3, reason="no library", lacking="device"),
        ),
    )
    *_, broken, unread = say(item)
    assert broken == "  broken: 1 entry at byte 0x40: cut"
    assert unread == "  not read: 3 entries, the first at byte 0x80: no library"
