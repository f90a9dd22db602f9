"""Extension modules are recognised by name and PyInit function."""

from __future__ import annotations

import importlib.machinery
import sys
import sysconfig

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.tags import Tag, parse_tag

from binary_checks.model import (
    Kind,
    are_suffixes_known,
    importable_by,
    init_function,
    is_extension,
    parse_extension_name,
)
from fixtures.values import elf_file, symbols

GRAALPY = "graalpy312-graalpy250_312_native"


def one(tag: str) -> Tag:
    (only,) = parse_tag(tag)
    return only


def fits(path: str, tag: str) -> bool:
    name = parse_extension_name(path)
    assert name is not None
    return importable_by(name, one(tag))


@pytest.mark.parametrize(
    ("suffix", "expected"),
    [
        (".cpython-311-x86_64-linux-gnu.so", ("cpython", (3, 11), False, "", "x86_64-linux-gnu")),
        (".cpython-313t-x86_64-linux-gnu.so", ("cpython", (3, 13), True, "", "x86_64-linux-gnu")),
        (".cpython-37m-i386-linux-gnu.so", ("cpython", (3, 7), False, "", "i386-linux-gnu")),
        (".cpython-312-darwin.so", ("cpython", (3, 12), False, "", "darwin")),
        (".cp311-win_amd64.pyd", ("cpython", (3, 11), False, "", "win_amd64")),
        (".cp313t-win_arm64.pyd", ("cpython", (3, 13), True, "", "win_arm64")),
        (".pypy310-pp73-x86_64-linux-gnu.so", ("pypy", (3, 10), False, "", "x86_64-linux-gnu")),
        (".graalpy242-311-native-x86_64-linux.so", ("graalpy", (3, 11), False, "", "x86_64-linux")),
        (".abi3.so", ("cpython", None, False, "abi3", "")),
        (".abi3t-x86_64-linux-gnu.so", ("cpython", None, False, "abi3t", "x86_64-linux-gnu")),
        (".abi3.pyd", ("cpython", None, False, "abi3", "")),
        (".so", ("", None, False, "", "")),
        (".pyd", ("", None, False, "", "")),
    ],
)
def test_a_suffix_says_who_imports_it(
    suffix: str, expected: tuple[str, tuple[int, int] | None, bool, str, str]
) -> None:
    name = parse_extension_name(f"demo/core/_native{suffix}")
    assert name is not None
    assert (name.module, name.stem, name.suffix) == ("demo.core._native", "_native", suffix)
    found = (name.implementation, name.version, name.free_threaded, name.stable, name.platform)
    assert found == expected
    assert name.tagged == bool(expected[0])


@pytest.mark.parametrize(
    "path",
    ["libx.so.1", "demo/lib-x.so", "demo/Foo.3.15.so", "demo/x.py", "demo/.so", "x", "", "1.so"],
)
def test_no_module_can_have_such_a_file_name(path: str) -> None:
    assert parse_extension_name(path) is None


def test_a_folder_that_is_no_package_is_no_part_of_the_module() -> None:
    name = parse_extension_name("../../../lib/native.so")
    assert name is not None
    assert name.module == "native"


def test_an_extension_exports_its_own_init_function() -> None:
    assert is_extension(elf_file("demo/a.so", exports=symbols("PyInit_a")))
    assert not is_extension(elf_file("demo/a.so", exports=symbols("PyInit_b")))
    assert not is_extension(elf_file("demo/_C.abi3.so", exports=symbols("_ZN2at")))
    program = elf_file("demo/a.so", kind=Kind.EXECUTABLE, exports=symbols("PyInit_a"))
    assert not is_extension(program)


def test_a_name_outside_ascii_is_initialised_under_its_punycode() -> None:
    # The examples of PEP 489.
    assert init_function("lančmít") == "PyInitU_lanmt_2sa6t"
    assert is_extension(elf_file("スパム.so", exports=symbols("PyInitU_zck5b2b")))


@pytest.mark.parametrize(
    ("path", "tag"),
    [
        ("a.cpython-311-x86_64-linux-gnu.so", "cp311-cp311-manylinux_2_17_x86_64"),
        ("a.cpython-311-i386-linux-gnu.so", "cp311-cp311-manylinux2014_i686"),
        ("a.cpython-311-arm-linux-gnueabihf.so", "cp311-cp311-manylinux_2_31_armv7l"),
        ("a.cpython-311-powerpc64le-linux-gnu.so", "cp311-cp311-manylinux_2_17_ppc64le"),
        ("a.cpython-311-aarch64-linux-musl.so", "cp311-cp311-musllinux_1_2_aarch64"),
        ("a.cpython-310-x86_64-linux-gnu.so", "cp310-cp310-musllinux_1_1_x86_64"),
        ("a.cpython-37m-x86_64-linux-gnu.so", "cp37-cp37m-manylinux1_x86_64"),
        ("a.cpython-311-darwin.so", "cp311-cp311-macosx_11_0_arm64"),
        ("a.cp311-win_amd64.pyd", "cp311-cp311-win_amd64"),
        ("a.pyd", "cp311-cp311-win_amd64"),
        ("a.cpython-313t-x86_64-linux-gnu.so", "cp313-cp313t-manylinux_2_17_x86_64"),
        ("a.abi3.so", "cp38-abi3-manylinux_2_17_x86_64"),
        ("a.abi3.so", "cp311-cp311-manylinux_2_17_x86_64"),
        ("a.abi3t.so", "cp315-abi3t-manylinux_2_17_x86_64"),
        ("a.cpython-310-x86_64-linux-gnu.so", "cp38-abi3-manylinux_2_17_x86_64"),
        ("a.so", "cp311-cp311-manylinux_2_17_x86_64"),
        ("a.so", "pp310-pypy310_pp73-manylinux_2_17_x86_64"),
        ("a.pypy310-pp73-x86_64-linux-gnu.so", "pp310-pypy310_pp73-manylinux_2_17_x86_64"),
        ("a.pypy310-pp73-x86_64-linux-gnu.so", "pp310-none-manylinux_2_17_x86_64"),
        ("a.pypy37-pp73-i686-linux-gnu.so", "pp37-pypy37_pp73-manylinux2010_i686"),
        ("a.pypy39-pp73-x86-linux-gnu.so", "pp39-pypy39_pp73-manylinux2014_i686"),
        ("a.cpython-311-x86_64-linux-gnu.so", "py3-none-manylinux_2_17_x86_64"),
        ("a.cpython-311-x86_64-linux-gnu.so", "cp311-cp311-linux_x86_64"),
        ("a.so", "py3-none-any"),
        ("a.graalpy250-312-native-x86_64-linux.so", f"{GRAALPY}-manylinux_2_17_x86_64"),
        ("a.graalpy250-312-native-x86_64-win32.pyd", f"{GRAALPY}-win_amd64"),
        ("a.pypy311-pp73-ppc_64-linux-gnu.so", "pp311-pypy311_pp73-manylinux_2_17_ppc64le"),
        ("a.pypy311-pp73-powerpc64le-linux-gnu.so", "pp311-pypy311_pp73-manylinux_2_17_ppc64le"),
        ("a.graalpy250-312-native-aarch64-darwin.so", f"{GRAALPY}-macosx_11_0_arm64"),
        ("a.graalpy250-312-native-aarch64-darwin.so", f"{GRAALPY}-macosx_11_0_universal2"),
    ],
)
def test_an_interpreter_of_the_tag_imports_it(path: str, tag: str) -> None:
    assert fits(path, tag)


@pytest.mark.parametrize(
    ("path", "tag"),
    [
        ("a.cpython-310-x86_64-linux-gnu.so", "cp311-cp311-manylinux_2_17_x86_64"),
        ("a.cpython-311-x86_64-linux-gnu.so", "cp311-cp311-manylinux_2_17_aarch64"),
        ("a.cpython-311-x86_64-linux-gnu.so", "cp311-cp311-musllinux_1_2_x86_64"),
        ("a.cpython-311-x86_64-linux-musl.so", "cp311-cp311-manylinux_2_17_x86_64"),
        ("a.cpython-313-x86_64-linux-gnu.so", "cp313-cp313t-manylinux_2_17_x86_64"),
        ("a.cpython-313t-x86_64-linux-gnu.so", "cp313-cp313-manylinux_2_17_x86_64"),
        ("a.abi3.so", "cp313-cp313t-manylinux_2_17_x86_64"),
        ("a.abi3.so", "pp310-pypy310_pp73-manylinux_2_17_x86_64"),
        ("a.abi3t.so", "cp311-cp311-manylinux_2_17_x86_64"),
        ("a.pypy311-pp73-x86_64-linux-gnu.so", "pp311-pypy311_pp80-manylinux_2_17_x86_64"),
        ("a.graalpy250-312-native-aarch64-darwin.so", f"{GRAALPY}-macosx_10_12_x86_64"),
        (
            "a.graalpy242-311-native-x86_64-linux.so",
            "graalpy311-graalpy250_311_native-manylinux_2_17_x86_64",
        ),
        ("a.graalpy250-312-native-x86_64-linux.so", f"{GRAALPY}-manylinux_2_17_aarch64"),
        ("a.cpython-37m-x86_64-linux-gnu.so", "cp38-abi3-manylinux_2_17_x86_64"),
        ("a.cpython-311-x86_64-linux-gnu.so", "cp311-cp311-macosx_11_0_arm64"),
        ("a.so", "cp311-cp311-win_amd64"),
        ("a.pyd", "cp311-cp311-manylinux_2_17_x86_64"),
        ("a.abi3.pyd", "cp311-abi3-win_amd64"),
        ("a.abi3t.pyd", "cp315-abi3t-win_amd64"),
        ("a.cp311-win_amd64.pyd", "cp311-cp311-win_arm64"),
        ("a.cpython-27m-x86_64-linux-gnu.so", "py3-none-manylinux_2_17_x86_64"),
    ],
)
def test_no_interpreter_of_the_tag_imports_it(path: str, tag: str) -> None:
    assert not fits(path, tag)


@pytest.mark.skipif(sys.platform != "linux", reason="spells Linux tags")
@pytest.mark.parametrize(
    ("platform", "known"),
    [
        *[(name, True) for name in ("any", "win32", "win_amd64", "win_arm64")],
        *[(name, True) for name in ("macosx_11_0_arm64", "linux_x86_64", "musllinux_1_2_aarch64")],
        *[(name, False) for name in ("freebsd_14_amd64", "linux_mips", "wasi_0_0_wasm32")],
    ],
)
def test_suffixes_of_usual_platforms_are_known(platform: str, known: bool) -> None:
    assert are_suffixes_known(platform) is known


def test_the_running_interpreter_agrees() -> None:
    flags = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    version = f"{sys.version_info[0]}{sys.version_info[1]}"
    platform = sysconfig.get_platform().replace("-", "_")
    tag = f"cp{version}-cp{version}{flags}-{platform}"
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        assert fits(f"a{suffix}", tag)


@given(st.text())
def test_any_path_is_taken_apart_or_refused(path: str) -> None:
    name = parse_extension_name(path)
    assert name is None or path.endswith(name.stem + name.suffix)
