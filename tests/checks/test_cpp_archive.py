"""Archives of C++ libraries: each check fires on the fault it names and is quiet without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks.checks.cpp_archive import (
    build_contradicts_name,
    cxx_abi_misreported,
    missing_prefix_part,
    python_in_cpp_archive,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import CppArchive, Dependency, Kind
from fixtures.build_cpp_archive import OMIT
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import archive
from fixtures.elf_tables import ElfSymbol
from fixtures.values import elf_file, macho_file, pe_file
from tests.checks.cpp_archives import OBJECT, package, said


class TestPrefix:
    def test_one_with_a_header_lacks_nothing(self, tmp_path: Path) -> None:
        assert said(missing_prefix_part(package(tmp_path))) == []
        bare: dict[str, object] = {"include/demo.h": OMIT, "include/Eigen/Core": ""}
        assert said(missing_prefix_part(package(tmp_path, bare))) == []

    def test_without_headers_nobody_can_compile(self, tmp_path: Path) -> None:
        none: dict[str, object] = {"include/demo.h": OMIT, "include/demo.txt": ""}
        assert said(missing_prefix_part(package(tmp_path, none))) == [
            "warning: include: has no headers: nobody can compile against it"
        ]
        name = "libtorch-shared-with-deps-2.13.0.zip"
        (line, *_) = said(missing_prefix_part(package(tmp_path, none, name=name)))
        assert line == "include: has no headers: nobody can compile against it"

    def test_libtorch_has_more(self, tmp_path: Path) -> None:
        name = "libtorch-shared-with-deps-2.13.0+cpu.zip"
        assert said(missing_prefix_part(package(tmp_path, name=name))) == [
            "share/cmake/Torch/TorchConfig.cmake: is not in the archive: "
            "find_package(Torch) does not find it",
            "warning: build-version: is not in the archive: nobody can tell which version it is",
            "warning: build-hash: is not in the archive: "
            "nobody can tell which commit it was built from",
        ]


class TestName:
    def test_what_it_says_is_so(self, tmp_path: Path) -> None:
        texts: dict[str, object] = {"build-version": "2.13.0+cpu", "build-hash": "cf30153c4c"}
        name = "libtorch-shared-with-deps-2.13.0%2Bcpu.zip"
        assert said(build_contradicts_name(package(tmp_path, texts, name=name))) == []

    def test_another_version_and_no_commit(self, tmp_path: Path) -> None:
        texts: dict[str, object] = {"build-version": "2.12.1+cpu", "build-hash": "unknown"}
        name = "libtorch-shared-with-deps-2.13.0+cpu.zip"
        assert said(build_contradicts_name(package(tmp_path, texts, name=name))) == [
            "build-version: says 2.12.1+cpu, but the file's name says 2.13.0+cpu",
            "warning: build-hash: says 'unknown', which is not a commit",
        ]

    def test_a_static_one_without_a_static_library(self, tmp_path: Path) -> None:
        name = "libtorch-static-without-deps-2.13.0+cpu.zip"
        found = package(tmp_path, {"lib/demo.lib": archive(a_obj=SHORT)}, name=name)
        assert said(build_contradicts_name(found)) == [
            ": its name says static, but it has no static library"
        ]
        found = package(tmp_path, {"lib/libdemo.a": archive(a_o=OBJECT)}, name=name)
        assert said(build_contradicts_name(found)) == []

    def test_a_shared_one_without_a_shared_library(self, tmp_path: Path) -> None:
        members: dict[str, object] = {"lib/libdemo.so": OMIT, "lib/libdemo.a": archive(a_o=OBJECT)}
        found = package(tmp_path, members, name="libtorch-shared-with-deps-2.13.0.zip")
        assert said(build_contradicts_name(found)) == [
            ": its name says shared, but it has no shared library"
        ]

    def test_a_version_alone_can_be_judged(self, tmp_path: Path) -> None:
        assert said(build_contradicts_name(package(tmp_path, name="demo-2.13.0.zip"))) == []
        files: dict[str, object] = {"build-version": "2.13.0"}
        assert said(build_contradicts_name(package(tmp_path, files, name="demo.zip"))) == []

    def test_a_commit_alone_can_be_judged(self, tmp_path: Path) -> None:
        files: dict[str, object] = {"build-hash": "x" * 61}
        assert said(build_contradicts_name(package(tmp_path, files, name="demo.zip"))) == [
            f"warning: build-hash: says '{'x' * 60}', which is not a commit"
        ]

    def test_a_name_that_says_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(NotApplicable):
            list(build_contradicts_name(package(tmp_path, name="demo.zip")))


SHORT = b"\0\0\xff\xff\0\0\x64\x86".ljust(40, b"\0")
"""An object that names one function of a DLL."""


class TestPython:
    def test_a_library_that_needs_python(self, tmp_path: Path) -> None:
        needs: dict[str, object] = {
            "lib/libdemo_core.so": build_elf(imports=[ElfSymbol("PyObject_Call")]),
            "lib/libdemo_python.so": build_elf(imports=[ElfSymbol("PyObject_Call")]),
            "lib/libdemo-gdb.py": "",
            "lib/libtorch_python.txt": "",
            "lib/demo.py": "",
            "share/demo.py": "",
        }
        assert said(python_in_cpp_archive(package(tmp_path, needs))) == [
            "lib/libdemo_core.so: needs symbols of Python (PyObject_Call), "
            "which C++ users do not have",
            "warning: lib/libdemo_python.so: needs symbols of Python (PyObject_Call), "
            "which C++ users do not have",
            "warning: lib/libtorch_python.txt: is for Python alone",
            "warning: lib/demo.py: is for Python alone",
        ]

    def test_by_the_name_of_its_library(self) -> None:
        (need,) = (Dependency(name="python311.dll"),)
        (frame,) = (Dependency(name="/Library/Frameworks/Python.framework/Python"),)
        found = CppArchive(
            path=Path("demo.zip"),
            objects=(
                elf_file("lib/libdemo.so", needed=(replace(need, name="libpython3.11.so.1.0"),)),
                pe_file("bin/demo.dll", needed=(need,)),
                macho_file("plugins/demo.dylib", needed=(frame,)),
            ),
        )
        assert said(python_in_cpp_archive(found)) == [
            "bin/demo.dll: needs python311.dll, which C++ users do not have",
            "warning: plugins/demo.dylib: needs /Library/Frameworks/Python.framework/Python, "
            "which C++ users do not have",
        ]

    def test_programs_among_the_libraries_are_passed_over(self) -> None:
        needed = (Dependency(name="python311.dll"),)
        program = pe_file("bin/demo.exe", needed=needed, kind=Kind.EXECUTABLE)
        found = CppArchive(
            path=Path("demo.zip"), objects=(program, pe_file("bin/other.dll", needed=needed))
        )
        assert said(python_in_cpp_archive(found)) == [
            "bin/other.dll: needs python311.dll, which C++ users do not have"
        ]

    def test_a_prefix_may_be_that_of_a_python(self, tmp_path: Path) -> None:
        found = package(tmp_path, {"lib/python3.12/os.py": b"", "lib/python3.12/x.py": b""})
        with pytest.raises(NotApplicable, match="a Python of its own"):
            said(python_in_cpp_archive(found))


def test_a_library_that_was_not_read_leaves_the_abi_unknown(tmp_path: Path) -> None:
    files: dict[str, object] = {"lib/liba.a": archive(one_o=OBJECT)[:100]}
    found = package(tmp_path, files, name="demo-cxx11-abi-linux-x86_64.zip")
    line, *_ = said(cxx_abi_misreported(found))
    assert line.startswith("not inspected: lib/liba.a: ")
