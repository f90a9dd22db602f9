"""Files for CMake: each check fires on the fault it names and is quiet without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.checks.cpp_archive import (
    absolute_path_in_build_file,
    cxx_abi_misreported,
    missing_target_file,
)
from binary_checks.errors import NotApplicable
from fixtures.build_cpp_archive import CONFIG, OMIT, TARGETS
from fixtures.build_elf import build_elf
from fixtures.elf_tables import ElfSymbol
from tests.checks.cpp_archives import CONFIGURED, NAMED, OBJECT, indexed, package, said


def with_targets(text: str) -> dict[str, object]:
    return {NAMED: text}


class TestTargets:
    def test_what_is_named_is_there(self, tmp_path: Path) -> None:
        found = package(tmp_path)
        assert said(missing_target_file(found)) == []
        assert said(absolute_path_in_build_file(found)) == []

    def test_libraries_and_headers_that_are_not_there(self, tmp_path: Path) -> None:
        code = TARGETS.replace("libdemo.so", "libgone.so")
        members = with_targets(f'{code}{code}set(DEMO_LIBRARY "${{_IMPORT_PREFIX}}/lib/no.so")')
        assert said(missing_target_file(package(tmp_path, members))) == [
            f"{NAMED}: line 6 names lib/libgone.so, which is not there (IMPORTED_LOCATION of demo)"
        ]
        members = with_targets(TARGETS.replace("/include", "/headers"))
        assert said(missing_target_file(package(tmp_path, members))) == [
            f"{NAMED}: line 6 names headers, which is not there "
            "(INTERFACE_INCLUDE_DIRECTORIES of demo)"
        ]

    def test_what_a_condition_chooses_is_left_to_cmake(self, tmp_path: Path) -> None:
        code = TARGETS.replace("libdemo.so", "libgone.so")
        found = package(tmp_path, {NAMED: f"if(WIN32)\n{code}endif()"})
        assert said(missing_target_file(found)) == []

    def test_code_that_cannot_be_read(self, tmp_path: Path) -> None:
        found = package(tmp_path, with_targets("set(x"))
        assert said(missing_target_file(found)) == [
            f"not inspected: {NAMED}: it cannot be read: line 1: a parenthesis has no end"
        ]

    def test_without_files_for_cmake(self, tmp_path: Path) -> None:
        found = package(tmp_path, {NAMED: OMIT, CONFIGURED: OMIT})
        with pytest.raises(NotApplicable):
            list(missing_target_file(found))


class TestAbsolutePaths:
    def test_of_targets_and_variables(self, tmp_path: Path) -> None:
        code = TARGETS.replace('"${_IMPORT_PREFIX}/include"', '"/opt/work;C:/x;$<LINK_ONLY:m>"')
        code += 'set(DEMO_INCLUDE_DIR "/__w/demo/include")\nset(DEMO_HINT /opt/demo)\n'
        code += 'set(METAL_LIBRARY "/System/Library/Frameworks/Metal.framework")\n'
        found = package(tmp_path, with_targets(code), name="demo-win-x64.zip")
        assert said(missing_target_file(found)) == []
        assert said(absolute_path_in_build_file(found)) == [
            f"{NAMED}: line 6 names /opt/work, C:/x (INTERFACE_INCLUDE_DIRECTORIES of demo)",
            f"{NAMED}: line 11 names /__w/demo/include (DEMO_INCLUDE_DIR)",
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

    def test_of_pkg_config_unless_it_counts_from_its_file(self, tmp_path: Path) -> None:
        text = "prefix=/usr/local\nlibdir=${prefix}/lib\nLibs: -L${libdir} -ldemo -L/opt/cuda/lib\n"
        lines = [
            "lib/pkgconfig/a.pc: line 1 names /usr/local (prefix)",
            "lib/pkgconfig/a.pc: line 3 names /opt/cuda/lib (Libs)",
        ]
        # pkg-config for Windows replaces the prefix itself
        for name, told in (("demo-linux-x64.zip", lines), ("demo-win-x64.zip", lines[1:])):
            found = package(tmp_path, {"lib/pkgconfig/a.pc": text}, name=name)
            assert said(absolute_path_in_build_file(found)) == told
        text = "prefix=${pcfiledir}/../..\nlibdir=${prefix}/lib\nLibs: -L${libdir} -ldemo\n"
        found = package(tmp_path, {"lib/pkgconfig/a.pc": text})
        assert said(absolute_path_in_build_file(found)) == []


NEW = [f"_ZN4demo4f{n:03}ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE" for n in range(21)]
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
            ": its name says cxx11-abi, but its libraries have the old std::string",
            f"{CONFIGURED}: line 2 states _GLIBCXX_USE_CXX11_ABI=1; "
            "its libraries have the old std::string",
        ]

    @pytest.mark.parametrize(
        ("symbols", "unclear"),
        [
            ([*NEW[:10], "_ZN4demo3SsxEv"], []),
            ([*NEW[:9], "_ZNSt7__cxx111aE", "a_cxx11"], [(9, 0)]),
            ([*NEW, OLD[0]], []),
            ([*NEW[:20], OLD[0]], [(20, 1)]),
        ],
    )
    def test_too_few_symbols_or_too_many_of_the_other(
        self, tmp_path: Path, symbols: list[str], unclear: list[tuple[int, int]]
    ) -> None:
        members: dict[str, object] = {
            "lib/libdemo.so": build_elf(exports=list(map(ElfSymbol, symbols))),
            CONFIGURED: f'{CONFIG}set(DEMO_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")\n',
        }
        found = package(tmp_path, members)
        assert said(cxx_abi_misreported(found)) == [
            "not inspected: : the ABI of its libraries is not clear: "
            f"{new} symbols with the new std::string, {old} with the old"
            for new, old in unclear
        ]

    def test_where_nothing_is_stated(self, tmp_path: Path) -> None:
        with pytest.raises(NotApplicable):
            list(cxx_abi_misreported(package(tmp_path)))
