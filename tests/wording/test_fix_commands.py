"""Commands that mend a problem name the file that has it, and nothing that a shell would run."""

from __future__ import annotations

import shlex

import pytest

from binary_checks.model import Format
from binary_checks.wording.sentences import (
    SIGN,
    add_to_search_path,
    bundle,
    drop_elements,
    fill_in,
    retag,
)
from fixtures.values import elf_file, macho_file

RPATH = ("$ORIGIN/../libs", "/tmp/{lib}")


def test_an_element_is_dropped_and_the_others_stay() -> None:
    one = elf_file("demo/a.so", runpath=RPATH)
    command = drop_elements(one, ["/tmp/{lib}"])
    assert fill_in(command, path="demo/a.so", package="x.whl") == (
        "patchelf --set-rpath '$ORIGIN/../libs' demo/a.so"
    )
    old = elf_file("demo/a.so", rpath=RPATH)
    assert "--force-rpath --set-rpath" in drop_elements(old, ["/tmp/{lib}"])
    assert drop_elements(one, RPATH) == "patchelf --remove-rpath {path}"


def test_of_a_mach_o_image_the_element_itself_is_named() -> None:
    image = macho_file("demo/a.so", rpaths=("/tmp/a b", "@loader_path"))
    command = fill_in(drop_elements(image, ["/tmp/a b"]), path="demo/a.so", package="x.whl")
    assert command == "install_name_tool -delete_rpath '/tmp/a b' demo/a.so"


@pytest.mark.parametrize(
    ("folder", "path", "way"),
    [("demo", "demo/a.so", ""), ("demo.libs", "demo/b/a.so", "/../../demo.libs"), ("", "a.so", "")],
)
def test_a_search_path_leads_from_the_object_to_the_folder(
    folder: str, path: str, way: str
) -> None:
    added = add_to_search_path(folder, path, "libx.so.1", Format.ELF)
    assert added == f"patchelf --add-rpath '$ORIGIN{way}' {{path}}"
    image = add_to_search_path(folder, path, "@rpath/libx.dylib", Format.MACHO)
    assert image == f"install_name_tool -add_rpath @loader_path{way} {{path}}"
    assert add_to_search_path(folder, path, "/opt/libx.dylib", Format.MACHO) == ""


def test_a_package_is_repaired_by_the_tool_of_its_system() -> None:
    formats = Format.ELF, Format.PE, Format.DEVICE
    repairs = [fill_in(bundle(each), path="", package="d/x.whl") for each in formats]
    assert repairs == ["auditwheel repair d/x.whl", "delvewheel repair d/x.whl", ""]
    assert fill_in(retag("manylinux_2_28_x86_64"), path="", package="x.whl") == (
        "wheel tags --remove --platform-tag manylinux_2_28_x86_64 x.whl"
    )


@pytest.mark.parametrize("path", ["a; rm -rf b.so", "$(id).so", "-x.so", "a'b.so", "{package}"])
def test_a_name_is_one_word_and_no_option(path: str) -> None:
    words = shlex.split(fill_in(SIGN, path=path, package="x.whl"))
    assert words[:-1] == ["codesign", "--force", "--sign", "-"]
    assert words[-1] == (f"./{path}" if path.startswith("-") else path)


@pytest.mark.parametrize("path", ["", "a\nb.so", "\x1b[31m.so", "::error::.so", "a" * 400])
def test_a_name_that_no_line_may_hold_has_no_command(path: str) -> None:
    assert fill_in(SIGN, path=path, package="x.whl") == ""


def test_a_template_of_a_hostile_document_is_only_text() -> None:
    assert fill_in("x {path:>9999999999} {0.__class__} {path}", path="a", package="") == (
        "x {path:>9999999999} {0.__class__} a"
    )
