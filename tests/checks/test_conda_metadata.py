"""What a conda package says of dependencies, systems and builds is held against its bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.checks.conda import (
    missing_virtual_package,
    objects_in_noarch,
    overlinking,
    overlinking_in_prefix,
    understated_driver,
    unpinned_python,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Claims,
    CondaPackage,
    DeviceCode,
    DeviceKind,
    Edge,
    Format,
    GivenPackages,
    InstallReport,
    Layout,
    Level,
    Linkage,
    NeededVersion,
    Note,
    NotInspected,
    Problem,
    PythonClaim,
    UnreadObject,
)
from fixtures.values import elf_file, macho_file, member, only, pe_file

SITE = "lib/python3.11/site-packages"
NATIVE = f"{SITE}/demo/_native.so"
CODE = DeviceCode(kind=DeviceKind.SASS, architecture="sm_90", count=1, bytes=1, compressed=0)


def package(name: str = "demo", *depends: str, **fields: Any) -> CondaPackage:
    usual = {"version": "1.0", "build": "h0_0", "subdir": "linux-64"}
    usual_layout = Layout(site_packages=SITE, climbs=False)
    known = {"name": name, "depends": depends, "layout": usual_layout, **usual, **fields}
    return CondaPackage(path=Path(f"{name}-1.0-h0_0.conda"), **known)


def edge(needed: str, resolved: str | None = None, path: str = NATIVE) -> Edge:
    return Edge(path=path, architecture="x86_64", needed=needed, resolved=resolved)


def linkage(*edges: Edge, **fields: Any) -> Linkage:
    return Linkage(target="linux-64", edges=edges, **fields)


def told(found: Any) -> list[tuple[str, Level]]:
    items = [item if isinstance(item, Problem) else Problem(sentence=str(item)) for item in found]
    return [(item.sentence, item.level) for item in items]


OTHER = edge("libother.so.1", "wheel:other:lib/libother.so.1")


def test_overlinking_fires_where_no_direct_dependency_is_the_owner() -> None:
    chain = (package("first", "middle"), package("middle", "other >=1"), package("other"))
    given, more = GivenPackages(packages=chain), replace(OTHER, path="lib/b.so")
    both = linkage(OTHER, more)
    ((sentence, level),) = told(overlinking(given, both, package("demo", "python")))
    assert sentence.startswith(
        "needs libother.so.1 (as do 1 more) of other, which is not among the dependencies"
    )
    assert level is Level.ERROR
    ((sentence, level),) = told(overlinking(given, linkage(OTHER), package("demo", "first")))
    assert sentence.endswith("another dependency requires it today")
    assert level is Level.WARNING
    needs = linkage(OTHER, edge("libc.so.6", "system:libc.so.6"), edge("x", "lib/x"))
    assert told(overlinking(given, needs, package("demo", "conda-forge::Other >=1,<2"))) == []


@pytest.mark.parametrize(("allowed", "count"), [(("libother*",), 0), (("*",), 1), (("lib?*",), 0)])
def test_names_may_be_allowed_one_by_one_and_not_all(allowed: tuple[str, ...], count: int) -> None:
    given = GivenPackages(packages=(package("other"),))
    found = told(overlinking(given, linkage(OTHER), package(), allowed=allowed))
    assert len(found) == count


def test_overlinking_is_not_inspected_where_no_dependency_was_given() -> None:
    needs = linkage(edge("libother.so.1"), requirements=("other", "b", "c", "d"))
    gap = only(NotInspected, overlinking(GivenPackages(), needs, package("demo", "other")))
    assert gap.sentence.endswith("with --binary-with (other, b, c)")
    with pytest.raises(NotApplicable):
        list(overlinking(GivenPackages(), linkage(), package("demo")))


PREFIX = InstallReport(python="CPython 3.11.7", libraries=(("lib/libother.so.1", "other"),))


def test_overlinking_in_prefix_fires_on_what_came_with_another_package() -> None:
    needs = linkage(edge("libother.so.1"), edge("libm.so.6", "system:libm.so.6"))
    ((sentence, _),) = told(overlinking_in_prefix(PREFIX, needs, package("demo", "middle")))
    assert "libother.so.1 of other, which is not among the dependencies" in sentence
    assert told(overlinking_in_prefix(PREFIX, needs, package("demo", "other"))) == []
    nothing = InstallReport(python="", error="no")
    assert only(NotInspected, overlinking_in_prefix(nothing, linkage(), package()))


MODULE = (member(f"{SITE}/demo/__init__.py"),)


@pytest.mark.parametrize(
    ("depends", "reason"),
    [
        (("numpy", "python"), "'python' allows others"),
        (("python >=3.9", "python <4"), "'python >=3.9' allows others"),
        (("numpy",), "no requirement excludes other Pythons"),
        ((), "no requirement excludes other Pythons"),
    ],
)
def test_unpinned_python_fires_where_others_fit(depends: tuple[str, ...], reason: str) -> None:
    oldest = Claims(pythons=(PythonClaim(name="python >=3.9", version=(3, 9)),))
    item = package("demo", *depends, members=MODULE, claims=oldest)
    ((sentence, _),) = told(unpinned_python(item))
    assert sentence == f"its files are for Python 3.11, and {reason}"


def test_unpinned_python_is_quiet_on_what_is_pinned() -> None:
    claims = Claims(pythons=(PythonClaim(name="python 3.11", version=(3, 11), abi="cp311"),))
    pinned = package("demo", "python >=3.11,<3.12.0a0", members=MODULE, claims=claims)
    assert told(unpinned_python(pinned)) == []
    assert told(unpinned_python(package("demo", "python_abi 3.11.*", members=MODULE))) == []
    there = (member("Lib/site-packages/demo/__init__.py"),)
    windows = Layout(site_packages="Lib/site-packages", climbs=False)
    for other in (
        package("demo", members=MODULE, noarch="python"),
        package("demo"),
        package("demo", members=there, layout=windows),
    ):
        with pytest.raises(NotApplicable):
            list(unpinned_python(other))
    with pytest.raises(NotApplicable, match="the package is Python itself"):
        list(unpinned_python(package("python", members=MODULE)))


def needs_glibc(*versions: str, weak: bool = False) -> tuple[Any, ...]:
    needs = (NeededVersion(library="libc.so.6", version=each, weak=weak) for each in versions)
    return (elf_file(NATIVE, symbol_versions=tuple(needs)),)


def test_missing_virtual_package_fires_on_a_newer_glibc_than_every_system_has() -> None:
    item = package("demo", "python", objects=needs_glibc("GLIBC_2.18", "GLIBC_2.34"))
    ((sentence, level),) = told(missing_virtual_package(item))
    assert "needs GLIBC_2.34, but no requirement says __glibc >=2.34" in sentence
    assert level is Level.ERROR
    assert len(told(missing_virtual_package(package(objects=needs_glibc("GLIBC_2.18"))))) == 1
    for objects in (needs_glibc("GLIBC_2.17"), needs_glibc("GLIBC_2.34", weak=True)):
        assert told(missing_virtual_package(package(objects=objects))) == []
    for other in (package("demo", "__glibc >=2.17"), package(subdir="win-64")):
        with pytest.raises(NotApplicable):
            list(missing_virtual_package(other))


def test_missing_virtual_package_warns_of_a_newer_macos() -> None:
    item = package(subdir="osx-arm64", objects=(macho_file(minimum_os="13.3"),))
    ((sentence, level),) = told(missing_virtual_package(item))
    assert sentence == "is built for macOS 13.3, but no requirement says __osx >=13.3"
    assert level is Level.WARNING
    assert told(missing_virtual_package(package(subdir="osx-arm64"))) == []
    for subdir, oldest, next_ in (("osx-arm64", "11.0", "11.1"), ("osx-64", "10.13", "10.14")):
        usual = package(subdir=subdir, objects=(macho_file(minimum_os=oldest),))
        newer = package(subdir=subdir, objects=(macho_file(minimum_os=next_),))
        assert told(missing_virtual_package(usual)) == []
        assert len(told(missing_virtual_package(newer))) == 1
    unread = (UnreadObject(path=NATIVE, format=Format.ELF, reason="no"),)
    assert only(NotInspected, missing_virtual_package(package(unread=unread)))
    assert list(missing_virtual_package(package(subdir="osx-64", unread=unread))) == []


CUDART = edge("libcudart.so.12")


def test_understated_driver_fires_on_an_older_cuda_or_none_and_is_quiet_on_what_asks_for_it() -> (
    None
):
    item = package("demo", "__cuda >=11.2")
    ((sentence, level),) = told(understated_driver(item, linkage(CUDART)))
    assert sentence.startswith("needs libcudart.so.12, of CUDA 12, and __cuda >=11.2 ")
    assert level is Level.ERROR
    objects = [elf_file(path, device_code=(CODE,)) for path in (NATIVE, "lib/other.so")]
    both = linkage(CUDART, edge("libcublas.so.12"))
    for item, needs, path, what in (
        (package(objects=objects), linkage(), NATIVE, "has code for GPUs"),
        (package(), both, "", "needs libcudart.so.12"),
    ):
        found = only(Problem, understated_driver(item, needs))
        assert (found.path, found.level) == (path, Level.WARNING)
        assert found.sentence.startswith(f"{what}, and no dependency asks for a driver")
    for depends in ("__cuda >=12", "cuda-version >=12.6,<13", "libtorch 2.5 cuda126_*"):
        assert told(understated_driver(package("demo", depends), linkage(CUDART))) == []
    with pytest.raises(NotApplicable):
        list(understated_driver(package("demo"), linkage()))


@pytest.mark.parametrize(
    ("path", "level"),
    [
        ("site-packages/demo/_native.so", Level.ERROR),
        ("lib/libdemo.so.1", Level.ERROR),
        ("share/demo/helper", Level.WARNING),
    ],
)
def test_objects_in_noarch_fires(path: str, level: Level) -> None:
    item = package(noarch="python", objects=(elf_file(path),))
    ((sentence, found),) = told(objects_in_noarch(item))
    assert sentence == "is an ELF object for x86_64, but the package is for every platform"
    assert found is level


def test_objects_in_noarch_only_notes_launchers_for_windows_and_is_quiet_without_objects() -> None:
    launcher = package(noarch="python", objects=(pe_file("a/gui-64.exe"),))
    assert only(Note, objects_in_noarch(launcher))
    assert told(objects_in_noarch(package(noarch="generic", members=MODULE))) == []
    with pytest.raises(NotApplicable):
        list(objects_in_noarch(package()))
