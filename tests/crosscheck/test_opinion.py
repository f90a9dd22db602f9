"""Every object of a package is read again, and what nobody could read again is said."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks import objects, packages
from binary_checks.crosscheck import declaration
from binary_checks.crosscheck.declaration import ELF_FACTS
from binary_checks.errors import GatherError, Unavailable
from binary_checks.gather.rereading import gather_opinion
from binary_checks.model import Dependency, InstalledPackage, Package, SecondOpinion
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.samples import FOLDER, HEALTHY_WHEEL

ELF = "demo/_native.cpython-311-x86_64-linux-gnu.so"


def open_package(path: Path) -> Package:
    return packages.open_package(path, objects)


def test_the_objects_of_a_wheel_are_read_by_two_libraries_each() -> None:
    opinion = gather_opinion(open_package(HEALTHY_WHEEL))
    assert [name.partition(" ")[0] for name in opinion.libraries] == ["LIEF", "pyelftools"]
    assert opinion.objects == 2
    assert opinion.compared == 2 * 2 * len(ELF_FACTS)
    assert opinion.disagreements == opinion.missing == ()


def test_each_format_is_read_by_its_own_libraries(tmp_path: Path) -> None:
    members = {
        "demo/a.so": (FOLDER / "elf/plain.so").read_bytes(),
        "demo/b.so": (FOLDER / "macho/universal2.dylib").read_bytes(),
        "demo/c.dll": (FOLDER / "pe/delayed.dll").read_bytes(),
        "demo/d.fatbin": b"\x50\xed\x55\xba" + bytes(60),
    }
    opinion = gather_opinion(open_package(build_wheel(tmp_path, members=members)))
    names = [name.partition(" ")[0] for name in opinion.libraries]
    assert names == ["LIEF", "macholib", "pefile", "pyelftools"]
    assert opinion.objects == 4  # two slices
    assert opinion.disagreements == opinion.missing == ()


def test_what_a_library_does_not_parse_is_missing_and_the_others_are_heard(tmp_path: Path) -> None:
    members = {"demo/a.dylib": (FOLDER / "macho/universal2_64.dylib").read_bytes()}
    opinion = gather_opinion(open_package(build_wheel(tmp_path, members=members)))
    (missing,) = opinion.missing
    assert (missing.path, missing.library.partition(" ")[0]) == ("demo/a.dylib", "LIEF")
    assert missing.reason == "UnparsedError: it does not parse the file"
    assert [name.partition(" ")[0] for name in opinion.libraries] == ["macholib"]


def test_a_library_that_is_not_installed_is_missing_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyelftools, lief = declaration.libraries_of(declaration.Format.ELF)
    known = (replace(pyelftools, distribution="no-such-thing"), lief)
    monkeypatch.setattr(declaration, "LIBRARIES", known)
    members = {"demo/a.so": build_elf(soname="a.so"), "demo/b.so": build_elf(soname="b.so")}
    opinion = gather_opinion(open_package(build_wheel(tmp_path, members=members)))
    (missing,) = opinion.missing
    assert (missing.path, missing.library) == ("", "pyelftools")
    assert missing.reason.endswith("install binary-checks[crosscheck]")
    assert opinion.objects == 2


def test_what_we_misread_is_a_disagreement_with_its_file(tmp_path: Path) -> None:
    package = open_package(build_wheel(tmp_path, members={ELF: build_elf(needed=("libc.so.6",))}))
    needed = (Dependency(name="libm.so.6"),)
    mistaken = replace(package, objects=(replace(package.objects[0], needed=needed),))
    found = gather_opinion(mistaken).disagreements
    assert {(each.path, each.fact) for each in found} == {(ELF, "needed")}
    assert {(each.ours, each.theirs) for each in found} == {("libm.so.6", "libc.so.6")}
    assert [each.library.partition(" ")[0] for each in found] == ["pyelftools", "LIEF"]


def test_a_package_without_objects_has_nothing_to_ask_about(tmp_path: Path) -> None:
    package = open_package(build_wheel(tmp_path, members={"demo/__init__.py": ""}))
    assert gather_opinion(package) == SecondOpinion()


def test_a_package_whose_bytes_are_not_at_hand_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="InstalledPackage"):
        gather_opinion(InstalledPackage(path=tmp_path / "demo.dist-info", name="demo"))


def test_where_there_is_no_interpreter_to_start_it_is_nobodys_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    with pytest.raises(GatherError, match="cannot be read once more: No such file"):
        gather_opinion(open_package(HEALTHY_WHEEL))
