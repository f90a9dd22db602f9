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


def test_packages_and_modules_at_the_top_level_are_imported() -> None:
    assert names("demo/__init__.py", "demo/core.py", "single.py") == ("demo", "single")


def test_extension_modules_at_the_top_level_are_imported() -> None:
    files = ("_a.cpython-311-x86_64-linux-gnu.so", "_b.abi3.so", "_c.so")
    assert names(extensions=files) == ("_a", "_b", "_c")


def test_a_package_may_be_compiled_itself() -> None:
    init = "demo/__init__.cpython-311-x86_64-linux-gnu.so"
    assert names("demo/core.py", extensions=(init,)) == ("demo",)


def test_extension_modules_of_other_interpreters_are_not_imported() -> None:
    other = "_a.cpython-310-x86_64-linux-gnu.so"
    assert names("demo.py", extensions=(other,)) == ("demo",)


def test_a_namespace_stands_for_the_packages_in_it() -> None:
    paths = ("google/cloud/storage/__init__.py", "google/rpc/__init__.py", "google/setup.py")
    assert names(*paths) == ("google.cloud.storage", "google.rpc")


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


def test_tests_beside_a_package_are_left_aside_but_not_alone() -> None:
    assert names("demo.py", "tests/__init__.py") == ("demo",)
    assert names("tests/__init__.py") == ("tests",)


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


def test_a_name_of_64000_characters_is_no_module() -> None:
    deep = "a/" * 30_000 + "x.py"
    assert names("demo/__init__.py", deep) == ("demo",)


def test_packages_far_down_a_namespace_are_found() -> None:
    far = "/".join(["a"] * 1500)
    assert names(f"{far}/__init__.py") == (far.replace("/", "."),)
