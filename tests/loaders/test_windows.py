from __future__ import annotations

from typing import Any

import pytest

from binary_checks.loaders import simulate
from binary_checks.model import Kind, Linkage, ObjectFile, PeFile, Symbol, Symbols, TargetSystem
from fixtures.linking import dll, link, needs, resolutions, windows
from fixtures.values import pe_file, symbols, wheel

MODULE = "demo/_native.cp311-win_amd64.pyd"


def module(*needed: str, **fields: Any) -> PeFile:
    return pe_file(
        MODULE, exports=symbols("PyInit__native"), **{"needed": needs(*needed), **fields}
    )


def load(*objects: ObjectFile, on: TargetSystem | None = None, **fields: Any) -> Linkage:
    return simulate(wheel(objects=objects, **fields), on or windows())


def asks(library: str, *names: str) -> Symbols:
    return Symbols(Symbol(name=name, library=library) for name in names)


def test_python_windows_and_its_api_sets_bring_libraries() -> None:
    heap = "api-ms-win-crt-heap-l1-1-0.dll"
    linkage = load(module("KERNEL32.dll", "python311.dll", "VCRUNTIME140.dll", heap))
    assert resolutions(linkage) == {
        "KERNEL32.dll": ("system:kernel32.dll", "system"),
        "python311.dll": ("python:python311.dll", "python"),
        "VCRUNTIME140.dll": ("python:vcruntime140.dll", "python"),
        heap: (f"system:{heap}", "api-set"),
    }


def test_the_dll_of_another_python_is_not_there() -> None:
    assert resolutions(load(module("python39.dll"))) == {"python39.dll": (None, "missing")}
    unknown = load(module("python39.dll"), on=windows(interpreter=None))
    assert resolutions(unknown) == {"python39.dll": ("python:python39.dll", "python")}


def test_an_api_set_that_no_list_has_is_not_known() -> None:
    (edge,) = load(module("api-ms-win-new-thing-l9-1-0.dll")).edges
    assert (edge.resolved, edge.unknown) == (None, "no list of Windows's API sets has it")


def test_the_directory_of_the_module_serves_all_that_it_leads_to_in_any_case() -> None:
    linkage = load(module("A.DLL"), dll("demo/a.dll", "b.dll"), dll("demo/B.dll"))
    assert resolutions(linkage) == {
        "A.DLL": ("demo/a.dll", "sibling"),
        "b.dll": ("demo/B.dll", "sibling"),
    }


def test_the_directory_of_a_dll_that_another_brought_is_not_searched() -> None:
    linkage = load(
        module("a.dll"),
        dll("demo.libs/a.dll", "b.dll"),
        dll("demo.libs/sub/b.dll"),
        dll_directories=("demo.libs",),
    )
    assert resolutions(linkage) == {
        "a.dll": ("demo.libs/a.dll", "added-directory"),
        "b.dll": (None, "missing"),
    }


def test_directories_come_from_the_packages_code_or_from_the_profile() -> None:
    objects = (module("a.dll", "b.dll"), dll("demo/bin/a.dll"), dll("demo/lib/b.dll"))
    system = windows(dll_directories=("demo/lib",))
    assert resolutions(load(*objects, on=system, dll_directories=("demo/bin",))) == {
        "a.dll": ("demo/bin/a.dll", "added-directory"),
        "b.dll": ("demo/lib/b.dll", "added-directory"),
    }


def test_a_dll_is_known_by_its_file_alone() -> None:
    linkage = load(module("a.dll"), dll("demo.libs/a-0123.dll", name="a.dll"))
    assert [edge.elsewhere for edge in linkage.edges] == [()]


def test_code_that_decides_at_run_time_leaves_it_unknown_where_a_bundled_dll_is_found() -> None:
    linkage = load(
        module("a.dll", "gone.dll"), dll("demo.libs/a.dll"), loading_code=("demo/__init__.py",)
    )
    assert {edge.needed: edge.unknown for edge in linkage.edges} == {
        "a.dll": "demo/__init__.py decides at run time where DLLs are looked for",
        "gone.dll": "",
    }


@pytest.mark.parametrize(
    ("subsystem", "name", "found"),
    [
        (1, "ntoskrnl.exe", "system:ntoskrnl.exe"),
        (1, "NDIS.SYS", "system:ndis.sys"),
        (1, "HAL.dll", "system:hal.dll"),
        (1, "vendor.sys", None),
        (3, "NDIS.SYS", None),
    ],
)
def test_drivers_find_what_the_kernel_has(subsystem: int, name: str, found: str | None) -> None:
    """WinDivert64.sys of pydivert 4.0.1 needs ntoskrnl.exe, NDIS.SYS and WDFLDR.SYS."""
    driver = dll("demo/a.sys", name, kind=Kind.EXECUTABLE, subsystem=subsystem)
    assert [edge.resolved for edge in load(driver).edges] == [found]


def test_code_in_python_decides_nothing_for_a_program() -> None:
    tool = dll("demo/bin/tool.exe", "a.dll", kind=Kind.EXECUTABLE)
    (edge,) = load(tool, dll("demo.libs/a.dll"), loading_code=("demo/__init__.py",)).edges
    assert (edge.resolved, edge.unknown) == (None, "")


def test_a_base_name_that_is_loaded_is_not_looked_for_again() -> None:
    linkage = load(
        module("VCRUNTIME140.dll"), dll("demo/vcruntime140.dll", exports=symbols("memcpy"))
    )
    (edge,) = linkage.edges
    assert (edge.resolved, edge.rule.value, edge.shadowed) == (
        "python:vcruntime140.dll",
        "loaded",
        "demo/vcruntime140.dll",
    )


def test_a_program_is_searched_beside_itself_and_has_no_python() -> None:
    tool = dll("demo/bin/tool.exe", "a.dll", "python311.dll", kind=Kind.EXECUTABLE)
    linkage = load(
        tool, dll("demo/bin/a.dll"), dll("demo/lib/b.dll"), dll_directories=("demo/lib",)
    )
    assert resolutions(linkage, tool.path) == {
        "a.dll": ("demo/bin/a.dll", "sibling"),
        "python311.dll": (None, "missing"),
    }


def test_a_delayed_library_is_looked_for_and_not_loaded() -> None:
    linkage = load(
        module(needed=needs("a.dll", "gone.dll", delayed=True)), dll("demo/a.dll", "b.dll")
    )
    assert [(e.needed, e.resolved, e.delayed) for e in linkage.edges_of(MODULE, "x86_64")] == [
        ("a.dll", "demo/a.dll", True),
        ("gone.dll", None, True),
    ]
    assert (MODULE, (MODULE,)) in linkage.closures


def test_functions_are_looked_up_by_name_and_number_in_the_library_that_is_asked() -> None:
    exported = Symbols([Symbol(name="there", ordinal=5), Symbol(name="#7", ordinal=7)])
    linkage = load(
        module("a.dll", "KERNEL32.dll", "python311.dll", imports=Symbols((
            *asks("a.dll", "there", "#5", "#7", "#8", "gone"),
            *asks("KERNEL32.dll", "Sleep"),
            *asks("python311.dll", "PyLong_FromLong", "PyNo_Such"),
        ))),
        dll("demo/a.dll", exports=exported),
    )  # fmt: skip
    assert [(item.name, item.library) for item in linkage.unresolved] == [
        ("#8", "a.dll"),
        ("PyNo_Such", "python311.dll"),
        ("gone", "a.dll"),
    ]
    assert linkage.unknown_exports == (("KERNEL32.dll", 1),)


def test_a_forwarded_function_is_there_if_what_it_leads_to_is() -> None:
    forwards = Symbols(
        Symbol(name=name, forwarder=to)
        for name, to in (
            ("on", "B.on"),
            ("off", "b.off"),
            ("sys", "KERNEL32.Sleep"),
            ("out", "C.on"),  # which the DLL that forwards does not stand in for
        )
    )
    linkage = load(
        module("a.dll", imports=asks("a.dll", "on", "off", "sys", "out")),
        dll("demo/a.dll", exports=forwards),
        dll("demo/b.dll", exports=symbols("on")),
    )
    assert [item.name for item in linkage.unresolved] == ["off", "out"]


def test_what_is_asked_of_a_delayed_library_is_told_as_such() -> None:
    linkage = load(
        module(needed=needs("a.dll", delayed=True), imports=asks("a.dll", "gone")),
        dll("demo/a.dll", exports=symbols("there")),
    )
    assert [(item.name, item.delayed) for item in linkage.unresolved] == [("gone", True)]


def test_managed_code_and_other_machines_are_not_loaded_and_hybrids_are() -> None:
    linkage = load(
        module("a.dll", "b.dll", architecture="aarch64"),
        dll("demo/a.dll", architecture="arm64x"),
        dll("demo/b.dll", architecture="aarch64", managed=True),
        dll("demo/c.dll", "gone.dll"),
        on=windows(architectures=("aarch64",)),
    )
    assert resolutions(linkage) == {"a.dll": ("demo/a.dll", "sibling"), "b.dll": (None, "missing")}


def test_a_wheel_beside_brings_its_directories_along() -> None:
    other = wheel(
        "other-1.0-py3-none-win_amd64.whl", objects=[dll("other/bin/a.dll")],
        dll_directories=("other/bin",),
    )  # fmt: skip
    linkage = link(module("a.dll"), others=(other,), on=windows())
    assert resolutions(linkage) == {"a.dll": ("wheel:other:other/bin/a.dll", "added-directory")}


def test_code_that_decides_at_run_time_may_add_directories_of_a_wheel_beside() -> None:
    other = wheel("other-1.0-py3-none-win_amd64.whl", objects=[dll("other/bin/a.dll")])
    package = wheel(objects=[module("a.dll")], loading_code=("demo/__init__.py",))
    linkage = simulate(package, windows(), (other,))
    assert resolutions(linkage) == {"a.dll": ("wheel:other:other/bin/a.dll", "added-directory")}
