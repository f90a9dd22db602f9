"""Archives of C++ libraries: each check fires on the fault it names and is quiet without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import objects
from binary_checks.checks.cpp_archive.build_files import (
    absolute_path_in_build_file,
    cxx_abi_misreported,
    missing_included_header,
    missing_target_file,
)
from binary_checks.checks.cpp_archive.static_libraries import (
    foreign_archive_member,
    unlinkable_static_library,
)
from binary_checks.checks.cpp_archive.unpacked_prefix import (
    build_contradicts_name,
    missing_prefix_part,
    python_in_cpp_archive,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import Dependency, Level, NotInspected, Problem
from binary_checks.model.cpp_archive import CppArchive
from binary_checks.packages import open_package
from fixtures.build_cpp_archive import CONFIG, OMIT, TARGETS, build_cpp_archive
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import archive, coff
from fixtures.elf_tables import ElfSymbol
from fixtures.values import macho_file, pe_file

LIBRARY = build_elf(soname="libdemo.so")
OBJECT = build_elf(kind="relocatable")
OF_ARM = build_elf(kind="relocatable", machine="aarch64")
NAMED = "share/cmake/Demo/DemoTargets.cmake"
CONFIGURED = "share/cmake/Demo/DemoConfig.cmake"


def indexed(*symbols: str, **members: bytes) -> bytes:
    """A static library with an index of these symbols."""
    names = len(symbols).to_bytes(4, "big") + bytes(4 * len(symbols))
    names += b"".join(symbol.encode() + b"\0" for symbol in symbols)
    return archive(index=names, **members).replace(b"index/", b"/     ", 1)


def package(folder: Path, members: dict[str, object] | None = None, **how: str) -> CppArchive:
    parts: dict[str, object] = {"lib/libdemo.so": LIBRARY, **(members or {})}
    built = build_cpp_archive(folder, parts, **how)  # type: ignore[arg-type]
    found = open_package(built, objects)
    assert isinstance(found, CppArchive)
    return found


def said(findings: object) -> list[str]:
    """The lines, warnings marked."""
    lines = []
    for each in findings:  # type: ignore[attr-defined]
        assert isinstance(each, Problem | NotInspected)
        mark = "warning: " * (isinstance(each, Problem) and each.level is Level.WARNING)
        mark = "not inspected: " if isinstance(each, NotInspected) else mark
        lines.append(f"{mark}{each.path}: {each.sentence}")
    return lines


class TestPrefix:
    def test_one_with_a_header_lacks_nothing(self, tmp_path: Path) -> None:
        assert said(missing_prefix_part(package(tmp_path))) == []

    def test_without_headers_nobody_can_compile(self, tmp_path: Path) -> None:
        assert said(missing_prefix_part(package(tmp_path, {"include/demo.h": OMIT}))) == [
            "include: has no headers: nobody can compile against it"
        ]

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
            "build-version: says 2.12.1+cpu, the file's name 2.13.0+cpu",
            "warning: build-hash: says 'unknown', which is no commit",
        ]

    def test_a_static_one_without_a_static_library(self, tmp_path: Path) -> None:
        name = "libtorch-static-without-deps-2.13.0+cpu.zip"
        found = package(tmp_path, {"lib/demo.lib": archive(a_obj=SHORT)}, name=name)
        assert said(build_contradicts_name(found)) == [
            ": its name says static, and it has no static library"
        ]
        found = package(tmp_path, {"lib/libdemo.a": archive(a_o=OBJECT)}, name=name)
        assert said(build_contradicts_name(found)) == []

    def test_a_shared_one_without_a_shared_library(self, tmp_path: Path) -> None:
        members: dict[str, object] = {"lib/libdemo.so": OMIT, "lib/libdemo.a": archive(a_o=OBJECT)}
        found = package(tmp_path, members, name="libtorch-shared-with-deps-2.13.0.zip")
        assert said(build_contradicts_name(found)) == [
            ": its name says shared, and it has no shared library"
        ]

    def test_a_name_that_says_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(NotApplicable):
            list(build_contradicts_name(package(tmp_path, name="demo.zip")))


LTCG = b"\0\0\xff\xff\1\0\x64\x86" + bytes(4) + bytes.fromhex("38feb30ca5d9ab4dac9bd6b6222653c2")
LTCG += bytes(40)
"""What ``cl /GL`` writes."""
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
                pe_file("bin/demo.dll", needed=(need,)),
                macho_file("plugins/demo.dylib", needed=(frame,)),
            ),
        )
        assert said(python_in_cpp_archive(found)) == [
            "bin/demo.dll: needs python311.dll, which C++ users do not have",
            "warning: plugins/demo.dylib: needs /Library/Frameworks/Python.framework/Python, "
            "which C++ users do not have",
        ]

    def test_one_without_python(self, tmp_path: Path) -> None:
        assert said(python_in_cpp_archive(package(tmp_path))) == []


class TestStaticLibraries:
    def test_members_of_another_architecture(self, tmp_path: Path) -> None:
        members: dict[str, object] = {
            "lib/liba.a": indexed("f", one_o=OBJECT, two_o=OF_ARM, three_o=OF_ARM),
            "lib/b.lib": indexed("f", b_obj=coff({".text": bytes(8)})),
        }
        assert said(foreign_archive_member(package(tmp_path, members))) == [
            "lib/b.lib: has 1 object of COFF x86_64 (b.obj); the archive is for linux_x86_64",
            "lib/liba.a: has 2 objects of ELF aarch64 (two.o); the archive is for linux_x86_64",
        ]

    def test_members_of_its_own(self, tmp_path: Path) -> None:
        members: dict[str, object] = {"lib/liba.a": indexed("f", one_o=OBJECT, text=b"a text")}
        found = package(tmp_path, members)
        assert said(foreign_archive_member(found)) == []
        assert said(unlinkable_static_library(found)) == []

    def test_what_linkers_refuse(self, tmp_path: Path) -> None:
        names = archive(names=b"gone.o/\nthere.o/\n").replace(b"names/", b"//    ", 1)
        head = archive(x=b"").removeprefix(b"!<arch>\n")
        listed = head.replace(b"x/", b"/0") + head.replace(b"x/", b"/8")
        members: dict[str, object] = {
            "lib/libthin.a": (names + listed).replace(b"!<arch>", b"!<thin>"),
            "lib/there.o": OBJECT,
            "lib/libplain.a": archive(one_o=OBJECT),
            "lib/liblto.a": indexed("f", one_o=b"BC\xc0\xde" + bytes(40)),
            "lib/ltcg.lib": indexed("f", one_obj=LTCG),
        }
        assert said(unlinkable_static_library(package(tmp_path, members))) == [
            "warning: lib/liblto.a: 1 of its members hold only "
            "LLVM bitcode for link-time optimisation (one.o)",
            "lib/libplain.a: has no index of symbols: ranlib writes one",
            "lib/libthin.a: is a thin archive, and its gone.o is missing",
            "warning: lib/ltcg.lib: 1 of its members hold only "
            "Visual C++'s own code for link-time optimisation (one.obj)",
        ]

    def test_one_that_was_not_read(self, tmp_path: Path) -> None:
        found = package(tmp_path, {"lib/liba.a": archive(one_o=OBJECT)[:100]})
        (line,) = said(foreign_archive_member(found))
        assert line.startswith("not inspected: lib/liba.a: ")


def with_targets(text: str) -> dict[str, object]:
    return {NAMED: text}


class TestTargets:
    def test_what_is_named_is_there(self, tmp_path: Path) -> None:
        found = package(tmp_path)
        assert said(missing_target_file(found)) == []
        assert said(absolute_path_in_build_file(found)) == []

    def test_a_file_that_find_package_comes_to(self, tmp_path: Path) -> None:
        members = with_targets(TARGETS.replace("libdemo.so", "libgone.so"))
        assert said(missing_target_file(package(tmp_path, members))) == [
            f"{NAMED}: line 6 names lib/libgone.so, which is not there "
            "(IMPORTED_LOCATION of demo); find_package(Demo) comes to it"
        ]

    def test_a_file_that_nobody_comes_to(self, tmp_path: Path) -> None:
        members = {
            "share/cmake/Other/OtherTargets.cmake": TARGETS.replace("libdemo.so", "libgone.a")
        }
        assert said(missing_target_file(package(tmp_path, members))) == [
            "warning: share/cmake/Other/OtherTargets.cmake: line 6 names lib/libgone.a, "
            "which is not there (IMPORTED_LOCATION of demo); "
            "no find_package() of the archive comes to it"
        ]

    @pytest.mark.parametrize(
        ("condition", "mark"),
        [
            ("ON", ""),
            ("MKL_FOUND", "warning: "),
            ("WIN32", None),
            ("UNIX AND NOT APPLE", ""),
            ("OFF OR (2 GREATER_EQUAL 3)", None),
            ("NOT OFF AND 1", ""),
        ],
    )
    def test_conditions_are_decided_where_that_is_possible(
        self, tmp_path: Path, condition: str, mark: str | None
    ) -> None:
        code = TARGETS.replace("libdemo.so", "libgone.so")
        lines = said(
            missing_target_file(
                package(tmp_path, {CONFIGURED: f"if({condition})\n{CONFIG}endif()", NAMED: code})
            )
        )
        if mark is None:
            assert lines[0].endswith("no find_package() of the archive comes to it")
        else:
            assert lines[0].startswith(f"{mark}{NAMED}: line 6")

    def test_code_that_cannot_be_followed(self, tmp_path: Path) -> None:
        found = package(tmp_path, with_targets("set(x"))
        assert said(missing_target_file(found)) == [
            f"not inspected: {NAMED}: it cannot be followed: line 1: a parenthesis has no end"
        ]

    def test_without_files_for_cmake(self, tmp_path: Path) -> None:
        found = package(tmp_path, {NAMED: OMIT, CONFIGURED: OMIT})
        with pytest.raises(NotApplicable):
            list(missing_target_file(found))


class TestAbsolutePaths:
    def test_of_targets_and_variables(self, tmp_path: Path) -> None:
        code = TARGETS.replace('"${_IMPORT_PREFIX}/include"', '"/opt/work/include;$<LINK_ONLY:m>"')
        code += 'set(DEMO_INCLUDE_DIR "/__w/demo/include")\nset(DEMO_HINT /opt/demo)\n'
        assert said(absolute_path_in_build_file(package(tmp_path, with_targets(code)))) == [
            f"{NAMED}: line 6 names /opt/work/include (INTERFACE_INCLUDE_DIRECTORIES of demo); "
            "find_package(Demo) comes to it",
            f"warning: {NAMED}: line 11 names /__w/demo/include (DEMO_INCLUDE_DIR); "
            "find_package(Demo) comes to it",
        ]

    def test_of_what_leads_out_of_the_archive(self, tmp_path: Path) -> None:
        code = TARGETS.replace("/lib/libdemo.so", "/../other/libdemo.so")
        (line,) = said(absolute_path_in_build_file(package(tmp_path, with_targets(code))))
        assert "line 6 names a path outside of the archive" in line

    def test_several_of_one_property_are_one_line(self, tmp_path: Path) -> None:
        paths = "/usr/lib/liba.so;/usr/lib/libb.so;/usr/lib/libc.so;/usr/lib/libd.so"
        code = f'{TARGETS}set_property(TARGET demo PROPERTY INTERFACE_LINK_LIBRARIES "{paths}")\n'
        (line,) = said(absolute_path_in_build_file(package(tmp_path, with_targets(code))))
        assert "names /usr/lib/liba.so, /usr/lib/libb.so, /usr/lib/libc.so and 1 more" in line

    def test_the_folder_that_it_is_packed_in_is_no_other_place(self, tmp_path: Path) -> None:
        code = TARGETS.replace("${_IMPORT_PREFIX}/", "${_IMPORT_PREFIX}/../demo/")
        assert said(absolute_path_in_build_file(package(tmp_path, with_targets(code)))) == []

    def test_default_places_of_modules_are_none(self, tmp_path: Path) -> None:
        members = {
            "share/cmake/Demo/FindCUDA.cmake": 'set(CUDA_LIBRARIES "/usr/local/cuda/lib64")',
            CONFIGURED: f'include("${{CMAKE_CURRENT_LIST_DIR}}/FindCUDA.cmake")\n{CONFIG}',
        }
        assert said(absolute_path_in_build_file(package(tmp_path, members))) == []

    def test_of_pkg_config(self, tmp_path: Path) -> None:
        text = "prefix=/usr/local\nlibdir=${prefix}/lib\nLibs: -L${libdir} -ldemo -L/opt/cuda/lib\n"
        assert said(
            absolute_path_in_build_file(package(tmp_path, {"lib/pkgconfig/a.pc": text}))
        ) == [
            "warning: lib/pkgconfig/a.pc: line 1 names /usr/local (prefix)",
            "warning: lib/pkgconfig/a.pc: line 3 names /opt/cuda/lib (Libs)",
        ]

    def test_of_pkg_config_that_counts_from_its_file(self, tmp_path: Path) -> None:
        text = "prefix=${pcfiledir}/../..\nlibdir=${prefix}/lib\nLibs: -L${libdir} -ldemo\n"
        found = package(tmp_path, {"lib/pkgconfig/a.pc": text})
        assert said(absolute_path_in_build_file(found)) == []


NEW = [f"_ZN4demo4f{n:03}ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE" for n in range(20)]
OLD = [f"_ZN4demo4f{n:03}ESs" for n in range(20)]


class TestAbi:
    @pytest.mark.parametrize(("symbols", "value"), [(NEW, 1), (OLD, 0)])
    def test_what_is_stated_is_so(self, tmp_path: Path, symbols: list[str], value: int) -> None:
        members: dict[str, object] = {
            "lib/libdemo.so": build_elf(exports=list(map(ElfSymbol, symbols))),
            CONFIGURED: f'{CONFIG}set(DEMO_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI={value}")\n',
        }
        name = f"demo-{'' if value else 'pre-'}cxx11-abi-linux-x64.zip"
        assert said(cxx_abi_misreported(package(tmp_path, members, name=name))) == []

    def test_the_other_one(self, tmp_path: Path) -> None:
        members: dict[str, object] = {
            "lib/libdemo.so": OMIT,
            "lib/libdemo.a": indexed(*OLD, one_o=OBJECT),
            CONFIGURED: f'{CONFIG}set(DEMO_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")\n',
        }
        found = package(tmp_path, members, name="demo-cxx11-abi-linux-x64.zip")
        assert said(cxx_abi_misreported(found)) == [
            ": its name says cxx11-abi, its libraries have the old std::string",
            f"{CONFIGURED}: line 2 states _GLIBCXX_USE_CXX11_ABI=1; "
            "its libraries have the old std::string",
        ]

    def test_too_few_symbols(self, tmp_path: Path) -> None:
        members: dict[str, object] = {
            "lib/libdemo.so": build_elf(exports=list(map(ElfSymbol, NEW[:3])))
        }
        found = package(tmp_path, members, name="demo-cxx11-abi-linux-x64.zip")
        assert said(cxx_abi_misreported(found)) == [
            "not inspected: : the ABI of its libraries is not clear: "
            "3 symbols with the new std::string, 0 with the old"
        ]

    def test_where_nothing_is_stated(self, tmp_path: Path) -> None:
        with pytest.raises(NotApplicable):
            list(cxx_abi_misreported(package(tmp_path)))


class TestHeaders:
    def lost(self, tmp_path: Path, text: str) -> list[str]:
        members: dict[str, object] = {"include/demo/all.h": text, "include/demo/there.h": ""}
        return said(missing_included_header(package(tmp_path, members)))

    @pytest.mark.parametrize(
        "line",
        [
            '#include "../gone.h"',
            "#include <demo/gone.h>",
            '#  include "demo/detail/gone.h" // why',
        ],
    )
    def test_one_that_only_the_archive_could_have(self, tmp_path: Path, line: str) -> None:
        text = f"#ifndef DEMO_H\n#define DEMO_H\n{line}\n#endif\n"
        (found,) = self.lost(tmp_path, text)
        assert found.startswith("include/demo/all.h: includes ")

    @pytest.mark.parametrize(
        "text",
        [
            '#include "there.h"\n#include <demo/there.h>',
            "#include <vector>\n#include <cuda_runtime.h>\n#include <sys/gone.h>",
            "#include <other/gone.h>",
            "#include <demo/plugin/of_others.h>",
            "#ifdef USE_DEMO\n#include <demo/gone.h>\n#endif",
            "#if 0\n#else\n#include <demo/gone.h>\n#endif",
            "/* as in\n#include <demo/gone.h>\n*/",
            "// \\\n#include <demo/gone.h>",
            'auto t = R"(\n#include <demo/gone.h>\n)";',
            "#endif\n#include <demo/gone.h>",
        ],
    )
    def test_others_are_nobodys_fault(self, tmp_path: Path, text: str) -> None:
        assert self.lost(tmp_path, text) == []

    def test_without_headers(self, tmp_path: Path) -> None:
        found = package(tmp_path, {"include/demo.h": OMIT})
        with pytest.raises(NotApplicable):
            list(missing_included_header(found))
