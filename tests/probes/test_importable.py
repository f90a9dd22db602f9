"""The names to import are those that a user would write."""

from __future__ import annotations

import pytest

from binary_checks.errors import NotApplicable
from binary_checks.probes.importable import find_extensions, find_import_names
from fixtures.values import elf_file, member, symbols, wheel

SUFFIXES = (".cpython-311-x86_64-linux-gnu.so", ".abi3.so", ".so")


def names(*paths: str, extensions: tuple[str, ...] = ()) -> tuple[str, ...]:
    objects = [
        elf_file(path, exports=symbols(f"PyInit_{path.rpartition('/')[2].partition('.')[0]}"))
        for path in extensions
    ]
    members = [member(path) for path in (*paths, *extensions)]
    return find_import_names(wheel(members=members, objects=objects), SUFFIXES)


FAR = "/".join(["a"] * 1500)
FOUND: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "packages and modules at the top level": (
        ("demo/__init__.py", "demo/core.py", "single.py"),
        (),
        ("demo", "single"),
    ),
    "extension modules at the top level": (
        (),
        ("_a.cpython-311-x86_64-linux-gnu.so", "_b.abi3.so", "_c.so"),
        ("_a", "_b", "_c"),
    ),
    "a package that is compiled itself": (
        ("demo/core.py",),
        ("demo/__init__.cpython-311-x86_64-linux-gnu.so",),
        ("demo",),
    ),
    "none of other interpreters": (
        ("demo.py",),
        ("_a.cpython-310-x86_64-linux-gnu.so",),
        ("demo",),
    ),
    "the packages in a namespace": (
        ("google/cloud/storage/__init__.py", "google/rpc/__init__.py", "google/setup.py"),
        (),
        ("google.cloud.storage", "google.rpc"),
    ),
    "packages far down a namespace": ((f"{FAR}/__init__.py",), (), (FAR.replace("/", "."),)),
    "no name of 64000 characters": (("demo/__init__.py", "a/" * 30_000 + "x.py"), (), ("demo",)),
    "no tests beside a package": (("demo.py", "tests/__init__.py"), (), ("demo",)),
    "tests alone": (("tests/__init__.py",), (), ("tests",)),
}


@pytest.mark.parametrize(("paths", "extensions", "found"), FOUND.values(), ids=FOUND)
def test_what_a_user_would_import_is_found(
    paths: tuple[str, ...], extensions: tuple[str, ...], found: tuple[str, ...]
) -> None:
    assert names(*paths, extensions=extensions) == found


@pytest.mark.parametrize(
    "path",
    [
        "demo.libs/libdep.so.1",
        "demo-stubs/__init__.pyi",
        "libdep.so",
        "nvidia/lib/libcudart.so",
        "2to3.py",
        "class.py",
        "__pycache__/demo.cpython-311.pyc",
        "../../../bin/demo.py",
        "share/doc/conf.py",
    ],
)
def test_what_no_import_finds_is_no_name(path: str) -> None:
    with pytest.raises(NotApplicable, match="no Python module"):
        names(path)


def test_a_suffix_alone_makes_no_extension_module() -> None:
    files = [
        elf_file("demo/_cffi.abi3.so", exports=symbols("hash")),
        elf_file("demo/_lost.abi3.so", imports=symbols("PyModule_Create2")),
        elf_file("demo/_other.abi3.so", exports=symbols("PyInit_another")),
    ]
    found = find_extensions(wheel(objects=files), SUFFIXES)
    assert found == ("demo/_lost.abi3.so", "demo/_other.abi3.so")


def test_a_wheel_without_extension_modules_has_nothing_to_load() -> None:
    with pytest.raises(NotApplicable, match="no extension module"):
        find_extensions(wheel(objects=[elf_file("demo/libdep.so")]), SUFFIXES)
