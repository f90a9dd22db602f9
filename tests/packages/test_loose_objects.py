"""A single object file, a folder of them, and an unpacked wheel are packages."""

from __future__ import annotations

import os
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from binary_checks import examine, objects, packages, trees
from binary_checks.errors import PackageError
from binary_checks.model import MachOFile, ObjectFolder, Package, SingleObject, UnpackedWheel
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import build_wheel

SAMPLES = Path(__file__).parents[2] / "fixtures/samples"
EXTENSION = "_native.cpython-311-x86_64-linux-gnu.so"
INIT = (ElfSymbol("PyInit__native"),)


def read(path: Path) -> Package:
    with closing(trees.open_tree(path)) as tree:
        return packages.kind_of(tree).read(tree, objects)


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_library_is_a_package_of_one_object(tmp_path: Path) -> None:
    found = read(write(tmp_path / EXTENSION, build_elf(exports=INIT, needed=("libc.so.6",))))
    assert isinstance(found, SingleObject)
    assert [item.path for item in found.objects] == [EXTENSION]
    assert [(c.name, c.libc, c.minimum) for c in found.claims.systems] == [
        ("linux_x86_64", "glibc", None)
    ]
    assert [(python.abi, python.version) for python in found.claims.pythons] == [("cp311", (3, 11))]
    assert found.claims.partial


def test_what_needs_musl_claims_musl(tmp_path: Path) -> None:
    found = read(write(tmp_path / "libx.so", build_elf(needed=("libc.musl-x86_64.so.1",))))
    assert [(c.name, c.libc) for c in found.claims.systems] == [("musllinux_x86_64", "musl")]


def test_a_stable_abi_is_bound_to_no_version(tmp_path: Path) -> None:
    found = read(write(tmp_path / "_native.abi3.so", build_elf(exports=INIT)))
    assert [(python.abi, python.version) for python in found.claims.pythons] == [("abi3", None)]


def test_a_program_needs_no_suffix(tmp_path: Path) -> None:
    for name in ("tool", "python3.12"):
        path = write(tmp_path / name, build_elf(interpreter="/lib64/ld-linux-x86-64.so.2"))
        assert packages.recognises(path)
        assert isinstance(read(path), SingleObject)
    assert not packages.recognises(write(tmp_path / "README", b"a text"))


def test_a_text_under_the_name_of_a_library_is_malformed(tmp_path: Path) -> None:
    found = read(write(tmp_path / "libx.so.1", b"version https://git-lfs.github.com/spec/v1\n"))
    assert [item.path for item in found.malformed] == ["libx.so.1"]


def test_what_linkers_alone_take_is_no_object(tmp_path: Path) -> None:
    path = write(tmp_path / "libx.so", b"/* GNU ld script */ INPUT(libx.so.1)")
    with pytest.raises(PackageError, match=r"libx\.so: not an object file of a known"):
        read(path)


@pytest.mark.skipif(os.name != "posix", reason="links need a privilege there")
def test_a_folder_of_a_build_is_one_with_all_its_objects(tmp_path: Path) -> None:
    write(tmp_path / "lib/demo" / EXTENSION, build_elf(exports=INIT, needed=("libx.so.1",)))
    write(tmp_path / "lib/libx.so.1.0", build_elf(soname="libx.so.1"))
    (tmp_path / "lib/libx.so.1").symlink_to("libx.so.1.0")
    (tmp_path / "lib/again").symlink_to("demo")
    found = read(tmp_path / "lib")
    assert isinstance(found, ObjectFolder)
    assert found.file_name == "lib/"
    assert [item.path for item in found.objects] == [f"demo/{EXTENSION}", "libx.so.1.0"]
    links = {member.path: member.target for member in found.members if member.target}
    assert links == {"again": "demo", "libx.so.1": "libx.so.1.0"}
    assert found.layout.site_packages == ""


def test_an_environment_has_its_site_packages(tmp_path: Path) -> None:
    site = tmp_path / "env/lib/python3.11/site-packages"
    write(site / "demo" / EXTENSION, build_elf(exports=INIT))
    found = read(tmp_path / "env")
    assert found.layout.site_packages == "lib/python3.11/site-packages"
    assert [item.path for item in found.objects] == [
        f"lib/python3.11/site-packages/demo/{EXTENSION}"
    ]


@pytest.mark.skipif(os.name != "posix", reason="links need a privilege there")
def test_a_link_to_a_file_elsewhere_is_the_file(tmp_path: Path) -> None:
    """As Bazel's outputs are."""
    write(tmp_path / "out/libx.so", build_elf())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/libx.so").symlink_to(tmp_path / "out/libx.so")
    assert [item.path for item in read(tmp_path / "bin").objects] == ["libx.so"]


@pytest.mark.skipif(os.name != "posix", reason="links need a privilege there")
def test_a_link_to_a_folder_elsewhere_is_said_and_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "out/libx.so", build_elf())
    write(tmp_path / "bin/liby.so", build_elf())
    (tmp_path / "bin/more").symlink_to(tmp_path / "out")
    found = read(tmp_path / "bin")
    assert [item.path for item in found.objects] == ["liby.so"]
    (link,) = (member for member in found.members if member.target)
    assert link.faults == (f"it links to {tmp_path / 'out'}, outside of the folder",)


def test_a_folder_without_objects_is_none(tmp_path: Path) -> None:
    write(tmp_path / "docs/index.html", b"<html>")
    assert not packages.recognises(tmp_path / "docs", folders=True)
    write(tmp_path / "docs/libx.so", build_elf())
    assert packages.recognises(tmp_path / "docs", folders=True)
    assert not packages.recognises(tmp_path / "docs")  # a path alone may be tests to collect


def test_an_unpacked_wheel_has_what_the_wheel_has(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, members={f"demo/{EXTENSION}": build_elf(exports=INIT)})
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "demo-1.0")
    packed, unpacked = read(wheel), read(tmp_path / "demo-1.0")
    assert isinstance(unpacked, UnpackedWheel)
    assert (unpacked.name, unpacked.version) == (packed.name, packed.version)
    assert unpacked.claims == packed.claims
    assert {m.path: m.sha256 for m in unpacked.members} == {
        m.path: m.sha256 for m in packed.members
    }
    with examine(tmp_path / "demo-1.0") as examination:  # profiles name it as the wheel, too
        examination.facts.get(UnpackedWheel)
        assert wheel.name in examination.facts.wheel_names


def test_a_site_packages_of_several_is_no_unpacked_wheel(tmp_path: Path) -> None:
    for name in ("a-1.dist-info", "b-1.dist-info"):
        write(tmp_path / "site" / name / "WHEEL", b"Wheel-Version: 1.0\n")
    write(tmp_path / "site/a.so", build_elf())
    assert isinstance(read(tmp_path / "site"), ObjectFolder)


def test_a_module_for_any_python_says_by_what_it_needs_for_which(tmp_path: Path) -> None:
    sample = SAMPLES / "pe/extension.cp311-win_amd64.pyd"
    found = read(write(tmp_path / "demo.pyd", sample.read_bytes()))
    assert [(c.name, c.architectures) for c in found.claims.systems] == [("win_amd64", ("x86_64",))]
    assert [(python.abi, python.version) for python in found.claims.pythons] == [("cp311", (3, 11))]


def test_objects_of_macos_say_for_which_version_they_are(tmp_path: Path) -> None:
    found = read(write(tmp_path / "a.dylib", (SAMPLES / "macho/plain.dylib").read_bytes()))
    assert isinstance(found.objects[0], MachOFile)
    stated = found.objects[0].minimum_os
    (system,) = found.claims.systems
    assert system.minimum is not None
    assert "{}.{}".format(*system.minimum) == stated


def test_a_folder_of_programs_alone_is_one(tmp_path: Path) -> None:
    write(tmp_path / "bin/tool", build_elf(interpreter="/lib64/ld-linux-x86-64.so.2"))
    assert packages.recognises(tmp_path / "bin", folders=True)
