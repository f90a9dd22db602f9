"""The summary of a package: lines for people, the table of device code above all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from binary_checks.model import (
    CubinGroup,
    Dependency,
    DeviceCode,
    DeviceContainers,
    DeviceDetails,
    DeviceFault,
    DeviceKind,
    DeviceLinking,
    DeviceTarget,
    Edge,
    Format,
    Layout,
    Linkage,
    MalformedObject,
    NeededVersion,
    ObjectDetails,
    PtxGroup,
    UnreadDeviceCode,
)
from binary_checks.reports.summary import write_summary
from fixtures.values import elf_file, pe_file, symbols, wheel


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
    *above, title, heading, older, newer = write_summary(wheel(objects=(library,)))
    assert under("GPU code", above) == ["sass sm_75, sm_100"]
    assert title == "device code of demo/lib.so: 4,000 bytes (98% of 4,096)"
    assert heading.split() == [
        *("architecture", "kind", "entries", "compressed", "containers", "bytes")
    ]
    assert older.split() == ["sm_75", "sass", "1", "1", "1/3", "1,000"]
    assert newer.split() == ["sm_100", "sass", "3", "3", "3/3", "3,000"]


def test_the_table_keeps_linked_and_relocatable_code_apart() -> None:
    parts = (
        (DeviceLinking.LINKED, sass("sm_80", 1, 1000)),
        (DeviceLinking.RELINKABLE, sass("sm_80", 2, 300)),
        (DeviceLinking.UNUSABLE, sass("sm_90", 1, 200)),
    )
    library = elf_file(
        "demo/lib.so",
        device_code=tuple(replace(code, linking=linking) for linking, code in parts),
        device_containers=(
            replace(group(1, "sm_80"), linking=DeviceLinking.LINKED),
            replace(group(1, "sm_80", "sm_90"), linking=DeviceLinking.RELINKABLE),
            replace(group(1, "sm_80"), linking=DeviceLinking.RELINKABLE),
        ),
    )
    package = wheel(objects=(library,))
    *_, title, heading, linked, relinkable, unusable = write_summary(package)
    assert title == "device code of demo/lib.so: 1,500 bytes (37% of 4,096)"
    assert heading.split()[:4] == ["architecture", "kind", "linking", "entries"]
    assert linked.split() == ["sm_80", "sass", "linked", "1", "1", "1/1", "1,000"]
    assert relinkable.split() == ["sm_80", "sass", "relinkable", "2", "2", "2/2", "300"]
    assert unusable.split() == ["sm_90", "sass", "unusable", "1", "1", "1/2", "200"]
    assert under("GPU code", write_summary(package)) == ["sass sm_80", "unusable sass sm_90"]


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
    assert not [line for line in lines if "device code" in line or "GPU" in line]


def under(heading: str, lines: Iterable[str]) -> list[str]:
    """The texts under one heading."""
    found: list[str] = []
    current = ""
    for line in lines:
        current = line[2:16].strip() or current
        found += [line[16:]] if current == heading and line.startswith("  ") else []
    return found


def test_it_says_for_which_pythons_it_is_and_for_which_it_could_be() -> None:
    module = elf_file("demo/_native.abi3.so", exports=symbols("PyInit__native"))
    module = replace(module, imports=symbols("PyModule_AddType"))
    package = wheel(
        "demo-1.0-cp311-abi3-manylinux_2_17_x86_64.whl",
        objects=(module,),
        metadata=(("Requires-Python", ">=3.11"),),
    )
    assert under("Pythons", write_summary(package)) == [
        "CPython 3.11 and later (cp311-abi3)",
        "Requires-Python: >=3.11",
        "oldest Python whose stable ABI suffices: 3.10 (PyModule_AddType)",
    ]


def test_it_says_the_lowest_tag_and_which_library_keeps_it_from_a_lower_one() -> None:
    needs = (NeededVersion(library="libc.so.6", version="GLIBC_2.28"),)
    module = elf_file("demo/a.so", needed=(Dependency(name="libc.so.6"),), symbol_versions=needs)
    package = wheel(objects=(module, replace(module, path="demo/b.so")))
    lines = list(write_summary(package))
    assert under("claims", lines) == ["manylinux_2_17_x86_64"]
    assert under("lowest tag", lines) == [
        "manylinux_2_28_x86_64: GLIBC_2.28 of libc.so.6 in a.so and 1 more"
    ]
    module = elf_file("demo/a.so", needed=(Dependency(name="libcuda.so.1"),))
    assert under("lowest tag", write_summary(wheel(objects=(module,)))) == [
        "no manylinux tag for x86_64: libcuda.so.1 in a.so; but for that manylinux_2_5_x86_64",
        "no musllinux tag for x86_64: libcuda.so.1 in a.so; but for that musllinux_1_1_x86_64",
    ]


def test_it_says_what_is_needed_and_from_where() -> None:
    node = NeededVersion(library="libc.so.6", version="GLIBC_2.17")
    older = NeededVersion(library="libc.so.6", version="GLIBC_2.3.4")
    module = elf_file("lib/python3.11/site-packages/demo/a.so", symbol_versions=(node, older))
    about = {"path": module.path, "architecture": "x86_64"}
    edges = (
        Edge(needed="libc.so.6", resolved="system:libc.so.6", **about),
        Edge(needed="libm.so.6", resolved="system:libm.so.6", **about),
        Edge(needed="libown.so", resolved="lib/python3.11/site-packages/demo/libown.so", **about),
        Edge(needed="libtorch.so", may_come_with=("torch",), **about),
        Edge(needed="libnccl.so", resolved="wheel:nccl:lib/libnccl.so", **about),
        Edge(needed="libgone.so", **about),
    )
    layout = Layout(site_packages="lib/python3.11/site-packages")
    package = wheel(objects=(module,), layout=layout)
    lines = list(write_summary(package, Linkage(target="", edges=edges, layout=layout)))
    assert under("system", lines) == ["libc.so.6 (GLIBC_2.17), libm.so.6"]
    assert under("of others", lines) == [
        "libnccl.so from nccl, needed by demo/a.so",
        "libtorch.so perhaps from torch, needed by demo/a.so",
    ]
    assert under("missing", lines) == ["libgone.so, needed by demo/a.so"]


def test_of_many_missing_libraries_the_first_are_listed() -> None:
    module = elf_file("demo/a.so")
    about = {"path": module.path, "architecture": "x86_64"}
    edges = tuple(Edge(needed=f"lib{number:03}.so", **about) for number in range(100))
    found = under(
        "missing", write_summary(wheel(objects=(module,)), Linkage(target="", edges=edges))
    )
    assert found[0] == "lib000.so, needed by demo/a.so"
    assert found[-1] == "and 88 more"
    assert len(found) == 13


def test_the_api_sets_of_windows_are_counted() -> None:
    module = pe_file()
    about = {"path": module.path, "architecture": "x86_64"}
    names = ["KERNEL32.dll", "api-ms-win-crt-heap-l1-1-0.dll", "api-ms-win-crt-math-l1-1-0.dll"]
    edges = tuple(Edge(needed=name, resolved=f"system:{name}", **about) for name in names)
    lines = write_summary(wheel(objects=(module,)), Linkage(target="", edges=edges))
    assert under("system", lines) == ["KERNEL32.dll, api-ms-win-crt-* (2)"]


def test_bundled_libraries_stand_with_their_sizes_the_largest_first() -> None:
    module = elf_file("demo/_native.cpython-311-x86_64-linux-gnu.so")
    few = [elf_file(f"demo.libs/lib{n}.so", size=1_000 * n) for n in range(1, 15)]
    found = under("bundled", write_summary(wheel(objects=(module, *few))))
    assert [line.split() for line in found[:2]] == [
        ["14,000", "demo.libs/lib14.so"],
        ["13,000", "demo.libs/lib13.so"],
    ]
    assert len(found) == 13
    assert found[-1].split() == ["105,000", "all", "14"]


def test_it_says_which_cxx_library_and_which_strings_or_toolset_are_used() -> None:
    needed = (Dependency(name="libstdc++.so.6"),)
    versions = tuple(
        NeededVersion(library="libstdc++.so.6", version=version)
        for version in ("GLIBCXX_3.4.9", "GLIBCXX_3.4.21", "CXXABI_1.3")
    )
    new = "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm"
    one = elf_file("a.so", needed=needed, symbol_versions=versions, imports=symbols(new))
    other = elf_file("b.so", needed=needed, imports=symbols("_ZNSs6assignEPKcm"))
    assert under("C++", write_summary(wheel(objects=(one, other)))) == [
        "libstdc++.so.6, CXXABI_1.3, GLIBCXX_3.4.21, new std::string in 1, old std::string in 1"
    ]
    module = pe_file(needed=(Dependency(name="VCRUNTIME140.dll"),), linker_version="14.44")
    assert under("C++", write_summary(wheel(objects=(module,)))) == [
        "VCRUNTIME140.dll, Visual C++ 14.44"
    ]


def test_a_package_without_objects_has_no_tag_and_needs_nothing() -> None:
    lines = list(write_summary(wheel("demo-1.0-py2.py3-none-any.whl")))
    assert lines[1:] == [
        "  claims        any",
        "  Pythons       Python 2 (py2-none), Python 3 (py3-none)",
    ]


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


# What lies inside device code: toolkits and drivers.


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
