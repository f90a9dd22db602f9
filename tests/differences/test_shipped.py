"""Modules, commands, headers, requirements and sizes: what users have, and no longer have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from binary_checks.model import (
    Claims,
    CmakePackage,
    CondaPackage,
    CppArchive,
    ElfFile,
    Package,
    PythonClaim,
    SystemClaim,
)
from fixtures.values import elf_file, member, symbols, wheel
from tests.differences.builds import only, said


def shipping(*paths: str, **fields: object) -> Package:
    return wheel(members=tuple(member(path) for path in paths), **fields)


def requiring(*texts: str, **fields: object) -> Package:
    return wheel(metadata=tuple(("Requires-Dist", text) for text in texts), **fields)


def test_a_module_that_is_gone_is_a_break_once_with_all_that_lay_below() -> None:
    old = shipping("demo/__init__.py", "demo/compat/__init__.py", "demo/compat/py3k.py")
    assert said(old, shipping("demo/__init__.py")) == [
        "break import-names: demo.compat: cannot be imported any more"
    ]
    assert said(shipping("demo/__init__.py"), old) == [
        "info import-names: demo.compat: can be imported now"
    ]


def test_private_modules_and_those_of_tests_are_nobodys_api_in_any_folder() -> None:
    old = shipping("demo/__init__.py", "demo/_impl.py", "demo/tests/test_a.py")
    assert said(old, shipping("demo/__init__.py")) == []
    old = shipping("demo/__init__.py", "demo/SelfTest/__init__.py")
    new = shipping("demo/__init__.py", "demo/SelfTest/__init__.py", "demo/SelfTest/test_a.py")
    assert said(old, new) == said(new, old) == []


def test_a_module_that_became_a_package_or_was_compiled_or_lost_its_init_is_the_same() -> None:
    old = shipping("demo/__init__.py", "demo/a.py", "demo/b.py")
    compiled = "demo/b.cpython-311-x86_64-linux-gnu.so"
    assert said(old, shipping("demo/__init__.py", "demo/a/__init__.py", compiled)) == []
    old = shipping("nvidia/__init__.py", "nvidia/nvjitlink/__init__.py")
    assert said(old, shipping("nvidia/nvjitlink/__init__.py")) == []
    assert said(old, shipping("nvidia/nvjitlink/lib/libnvJitLink.so.12")) == []


def test_a_private_extension_module_that_is_gone_or_new_is_told() -> None:
    old, new = (
        wheel(objects=[extension(f"demo/{name}.cpython-311-x86_64-linux-gnu.so", name)])
        for name in ("_fast", "_faster")
    )
    assert said(old, new) == [
        "change extension-modules: demo._fast: is gone",
        "info extension-modules: demo._faster: is new",
    ]
    pure = wheel(members=[member("demo/_fast.py")])
    assert said(old, pure) == []


def test_an_extension_module_that_lost_its_init_function_breaks() -> None:
    path = "demo/_fast.cpython-311-x86_64-linux-gnu.so"
    old, new = (wheel(objects=[extension(path, name)]) for name in ("_fast", "_other"))
    assert said(old, new) == [
        "break extension-modules: demo._fast: does not export PyInit__fast any more: its import "
        "fails"
    ]


def extension(path: str, name: str) -> ElfFile:
    return elf_file(path, name="", exports=symbols(f"PyInit_{name}"))


def test_headers_that_moved_with_their_folder_are_the_same() -> None:
    old, new = (shipping(f"numpy/{each}/include/numpy/x.h") for each in ("core", "_core"))
    assert said(old, new) == []


def test_a_library_that_is_no_module_is_not_imported() -> None:
    path = "demo/libdemo.so"
    library = elf_file(path, name="libdemo.so", exports=symbols("a"))
    old = shipping("demo/__init__.py", path, objects=(library,))
    assert only(said(old, shipping("demo/__init__.py")), "import-names") == []


def test_entry_points_and_commands() -> None:
    old = wheel(
        entry_points=(("console_scripts", "demo", "demo:main"), ("pytest11", "demo", "demo.plugin"))
    )
    assert said(old, wheel()) == [
        "break commands: demo: the command is gone",
        "break entry-points: pytest11: demo: is gone",
    ]
    assert said(old, old) == []
    # A command that became a file is the same.
    old = wheel(entry_points=(("console_scripts", "demo", "demo:main"),))
    assert said(old, wheel(members=(replace(member("x"), path="bin/demo"),))) == []


def test_requirements_that_come_go_and_change() -> None:
    assert said(
        requiring("a>=1", "b<9", "c==1", "d==1"), requiring("a>=1", "c==2", "d==3", "e")
    ) == [
        "change requirements: 2 requirements: are required in other versions "
        "(c ==1 -> ==2, d ==1 -> ==3)",
        "change requirements: b: is no longer required, previously as '<9'",
        "change requirements: e: is required now",
    ]


def test_requirements_of_other_systems_and_pins_of_its_own_version_do_not_count() -> None:
    linux = SystemClaim(name="manylinux_2_17_x86_64", system="linux", architectures=("x86_64",))
    claims = Claims(systems=(linux,))
    new = requiring('a==1; sys_platform == "win32"', claims=claims)
    assert said(requiring(claims=claims), new) == []
    old = requiring("demo-core==1.0")
    new = requiring("demo-core==2.0", version="2.0")
    assert said(old, new) == []


def test_a_requirement_for_one_of_the_promised_pythons_counts() -> None:
    def required(row: str) -> Package:
        pythons = (
            PythonClaim(name="cp38-abi3", implementation="cpython", version=(3, 8), abi="abi3"),
        )
        return requiring(row, claims=Claims(pythons=pythons))

    old, new = required("cffi>=1.14"), required('cffi>=2.0; python_full_version >= "3.14"')
    (line,) = said(old, new)
    assert line.startswith("change requirements: cffi: is required as '>=2.0 ; python_full")


def test_an_extra_that_is_gone_is_a_break_but_for_developers() -> None:
    names = ("fast", "test", "quality")
    old = wheel(metadata=tuple(("Provides-Extra", name) for name in names))
    assert said(old, wheel()) == ["break extras: fast: the extra is gone"]


def test_an_extra_brings_what_its_markers_name_and_nothing_that_comes_anyway() -> None:
    def with_extras(*rows: str) -> Package:
        extras = tuple(("Provides-Extra", name) for name in ("fast", "Very_Fast"))
        return wheel(metadata=(*extras, *(("Requires-Dist", row) for row in rows)))

    old = with_extras('a>=1; extra == "fast" or extra == "very-fast"', "b", 'b>=2; extra == "fast"')
    new = with_extras('a>=2; extra == "fast" or extra == "very-fast"', "b", 'b>=2; extra == "fast"')
    assert said(old, new) == [
        "info extras: 2 requirements: are required in other versions: >=1 -> >=2 "
        "([fast] a, [very-fast] a)"
    ]


def conda(*depends: str, constrains: tuple[str, ...] = ()) -> CondaPackage:
    return CondaPackage(
        path=Path("demo-1-0.conda"),
        name="demo",
        version="1",
        depends=depends,
        constrains=constrains,
    )


def test_dependencies_and_constraints_of_conda() -> None:
    assert said(conda("a >=1", "__glibc >=2.17"), conda("a >=2", "__glibc >=2.28", "b")) == [
        "change conda-dependencies: a: is required as '>=2', previously as '>=1'",
        "change conda-dependencies: b: is required now",
    ]
    assert said(conda("a"), conda("a")) == []
    old = conda(constrains=("a <2", "b <2", "c"))
    assert said(old, conda(constrains=("a <3", "c <1", "d >=1"))) == [
        "info conda-dependencies: 2 packages: are constrained to other versions (a, c)",
        "info conda-dependencies: b: is no longer constrained to '<2'",
        "info conda-dependencies: d: is constrained to '>=1' now",
    ]
    assert said(conda(constrains=("c",)), conda(constrains=("c <1",))) == [
        "info conda-dependencies: c: is constrained to '<1', previously to any version"
    ]


def test_headers_and_cmake_packages_of_an_archive() -> None:
    def archive(*paths: str, found: str = "") -> CppArchive:
        cmake = (CmakePackage(name=found, path=f"lib/cmake/{found}Config.cmake"),) if found else ()
        members = tuple(replace(member("x"), path=path) for path in paths)
        return CppArchive(
            path=Path("libdemo.zip"), name="demo", members=members, cmake_packages=cmake
        )

    old = archive("include/demo.h", "include/detail/x.h", found="Demo")
    assert said(old, archive()) == [
        "break cmake-packages: Demo: find_package no longer finds it",
        "break headers: demo.h: the header is gone",
    ]
    assert said(old, old) == []


def test_a_compressed_file_is_not_compared_with_a_folder() -> None:
    members = (replace(member("demo/data.txt"), size=4_000_000),)
    packed = wheel(size=1_000_000, members=members)
    folder = replace(packed, size=sum(item.size for item in packed.members))
    assert said(packed, folder) == []
    assert said(folder, packed) == []
    assert len(said(packed, replace(packed, size=3_000_000))) == 1


def test_sizes_count_from_a_share_and_a_number_of_bytes() -> None:
    def sized(size: int, data: int) -> Package:
        return wheel(size=size, members=(replace(member("demo/data.bin"), size=data),))

    assert said(sized(1_000_000, 100_000), sized(1_040_000, 140_000)) == []
    assert said(sized(1_000_000, 1_000_000), sized(1_400_000, 1_100_000)) == [
        "change sizes: package file: 1.4 MB, previously 1.0 MB, +40%",
        "info sizes: data: 1.1 MB, previously 1.0 MB, +10%",
    ]
    old, new = wheel(size=861_000), wheel(size=939_000)
    assert said(old, new) == ["info sizes: package file: 0.94 MB, previously 0.86 MB, +9%"]
