from __future__ import annotations

import pytest

from binary_checks.checks.linkage.needed_libraries import opened_library_missing
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Finding,
    Note,
    NotInspected,
    ObjectFile,
    OpenedNames,
    Package,
    Problem,
    TargetSystem,
)
from fixtures.linking import EXTENSION, dll, library, link, macos, target, windows
from fixtures.values import macho_file, wheel


def opens(*names: str, unread: str = "") -> OpenedNames:
    return OpenedNames(names=names, unread=unread)


def opener(*names: str, path: str = EXTENSION, soname: str = "") -> ObjectFile:
    return library(path, name=soname, opened=opens(*names))


def judge(
    *objects: ObjectFile,
    others: tuple[Package, ...] = (),
    on: TargetSystem | None = None,
    optional: tuple[str, ...] | None = None,
) -> list[Finding]:
    system = on or target()
    options = {} if optional is None else {"optional": optional}
    linkage = link(*objects, others=others, on=system)
    return list(opened_library_missing(linkage, wheel(objects=objects), system, **options))


def cublas(soname: str = "libcublas.so.13") -> Package:
    brought = library(f"nvidia/cu13/lib/{soname}", name=soname)
    return wheel("nvidia_cublas-13.0-py3-none-manylinux_2_17_x86_64.whl", objects=(brought,))


def test_a_development_name_of_a_library_that_is_there_with_its_number_only() -> None:
    assert judge(opener("libcublas.so"), others=(cublas(),)) == [
        Problem(
            path=EXTENSION,
            sentence="has libcublas.so among its strings, to open at run time, but the library "
            "exists only as libcublas.so.13: opening it by that name fails",
        )
    ]


def test_another_version_than_the_one_that_is_there() -> None:
    (finding,) = judge(opener("libcublas.so.12"), others=(cublas(),))
    assert isinstance(finding, Problem)
    assert "libcublas.so.12" in finding.sentence


def test_a_development_name_of_a_library_of_the_system() -> None:
    (finding,) = judge(opener("libz.so"))
    assert isinstance(finding, Problem)
    assert "exists only as libz.so.1" in finding.sentence


def test_a_library_that_a_repair_tool_called_otherwise() -> None:
    grafted = library("demo.libs/libnuma-0123abcd.so.1.0.0", name="libnuma-0123abcd.so.1.0.0")
    (finding,) = judge(opener("libnuma.so.1"), grafted)
    assert isinstance(finding, Problem)
    assert "exists only as libnuma-0123abcd.so.1.0.0" in finding.sentence


@pytest.mark.parametrize("name", ["libcublas.so.13", "libc.so.6"])
def test_a_name_that_a_wheel_or_the_system_has_is_fine(name: str) -> None:
    assert judge(opener(name), others=(cublas(),)) == []


def test_of_several_names_of_a_library_one_that_is_there_is_enough() -> None:
    assert judge(opener("libcublas.so", "libcublas.so.13"), others=(cublas(),)) == []


def test_a_name_that_its_own_version_completes_is_fine() -> None:
    first = opener("libcudnn_ops.so", path="nvidia/libcudnn.so.9", soname="libcudnn.so.9")
    assert judge(first, library("nvidia/libcudnn_ops.so.9", name="libcudnn_ops.so.9")) == []


def test_what_an_object_is_called_itself_is_fine() -> None:
    path = "demo.libs/libcrypto-6aa7cfbd.so.1.1.1k"
    assert judge(opener("libcrypto.so.1.1", path=path)) == []


@pytest.mark.parametrize("name", ["libcuda.so.1", "libnvidia-ml.so.1", "libOpenCL.so.1"])
def test_libraries_of_drivers_are_opened_where_there_is_one(name: str) -> None:
    assert judge(opener(name)) == []
    assert len(judge(opener(name), optional=())) == 1


def test_a_note_names_the_first_eight_libraries() -> None:
    names = [f"libplugin_{letter}.so" for letter in "abcdefghi"]
    listed = ", ".join(names[:8])
    (whole,), (cut,) = judge(opener(*names[:8])), judge(opener(*names))
    assert isinstance(whole, Note)
    assert whole.sentence.startswith(f"may open {listed}, which")
    assert isinstance(cut, Note)
    assert cut.sentence.startswith(f"may open {listed} and 1 more, which")


def test_what_nothing_provides_is_noted_once_for_all_that_open_it() -> None:
    again = opener("libittnotify.so", path="demo/_other.cpython-311-x86_64-linux-gnu.so")
    assert judge(opener("libittnotify.so"), again, others=(cublas(),)) == [
        Note(
            path=EXTENSION,
            sentence="may open libittnotify.so (so may 1 more), which neither the package, "
            "nor a given wheel, nor manylinux_2_17_x86_64 provides",
        )
    ]


def test_an_interpreters_library_is_the_interpreters_matter() -> None:
    assert judge(opener("libpython3.11.so")) == []


def test_strings_that_were_not_all_searched_are_no_pass() -> None:
    item = library(EXTENSION, opened=opens(unread="12 bytes of its read-only data were not kept"))
    assert judge(item) == [
        NotInspected(
            path=EXTENSION,
            sentence="the names by which it opens libraries: 12 bytes of its read-only data were "
            "not kept",
        )
    ]


def test_without_an_object_that_opens_libraries_there_is_nothing_to_judge() -> None:
    with pytest.raises(NotApplicable, match="no object opens libraries by name"):
        judge(library(EXTENSION))


PYD = "demo/_native.cp311-win_amd64.pyd"


def test_on_windows_what_is_nowhere_is_noted_whatever_the_case() -> None:
    item = dll(PYD, opened=opens("KERNEL32.dll", "nvcuda.dll", "netmsg.dll", "python3.dll"))
    assert judge(item, on=windows()) == [
        Note(
            path=PYD,
            sentence="may open netmsg.dll, which neither the package nor win_amd64 provides",
        )
    ]


def test_on_windows_the_old_name_of_a_renamed_dll_may_be_left_over() -> None:
    grafted = dll("demo.libs/libssl-3-x64-0123456789abcdef0123456789abcdef.dll")
    assert judge(dll(PYD, opened=opens("libssl-3-x64.dll")), grafted, on=windows()) == []


def test_on_macos_versions_stand_before_the_ending() -> None:
    path = "demo/_native.cpython-311-darwin.so"
    brought = macho_file("demo/.dylibs/libx265.217.dylib", architecture="aarch64", bundle=False)
    item = macho_file(
        path, architecture="aarch64", opened=opens("libSystem.B.dylib", "libx265.dylib")
    )
    (finding,) = judge(item, brought, on=macos())
    assert isinstance(finding, Problem)
    assert finding.path == path
    assert "exists only as libx265.217.dylib" in finding.sentence
