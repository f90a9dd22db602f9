"""An archive of C++ libraries is unpacked by our own reader, moved, and removed at the end."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from binary_checks import objects, packages
from binary_checks.errors import GatherError, NotApplicable, Unavailable
from binary_checks.model import CppArchive, CudaRequest, SnippetRequest
from binary_checks.places import PlaceSettings, choose_place
from binary_checks.places.unpacked import RefusedMember, UnpackedPlace, require_builds, unpack
from binary_checks.probes.ask_module.reader import ask_without_gpu
from binary_checks.probes.run_snippet.reader import run_snippets
from binary_checks.trees import open_tree
from fixtures.archive_entries import Entry
from fixtures.build_cpp_archive import build_cpp_archive
from fixtures.tar_members import TarMember

SYMLINK, DIRECTORY, FIFO = 0o120777, 0o040755, 0o010644
LIBRARY: Mapping[str, Any] = {"lib/libdemo.a": b"!<arch>\n"}


def read(path: Path) -> CppArchive:
    package = packages.open_package(path, objects)
    assert isinstance(package, CppArchive)
    return package


class Unpacked(NamedTuple):
    folder: Path
    names: set[str]


def unpack_into(folder: Path, archive: Path, seconds: float = 60) -> Unpacked:
    folder.mkdir()
    with closing(open_tree(archive)) as tree:
        unpack(tree, read(archive), folder, seconds=seconds)
    found = (path for path in folder.rglob("*") if not path.is_dir())
    return Unpacked(folder, {path.relative_to(folder).as_posix() for path in found})


@pytest.mark.parametrize("name", ["demo-1.0.zip", "demo-1.0.tar.gz", "demo-1.0.tar.bz2"])
def test_every_member_is_written_and_nothing_else(name: str, tmp_path: Path) -> None:
    archive = build_cpp_archive(tmp_path, LIBRARY, name=name)
    unpacked = unpack_into(tmp_path / "to", archive)
    cmake = {f"demo/share/cmake/Demo/Demo{part}.cmake" for part in ("Config", "Targets")}
    assert unpacked.names == {"demo/lib/libdemo.a", "demo/include/demo.h", *cmake}
    assert (unpacked.folder / "demo/lib/libdemo.a").read_bytes() == b"!<arch>\n"


@pytest.mark.skipif(os.name != "posix", reason="there are no such modes")
def test_of_a_mode_nothing_is_kept_but_that_it_runs(tmp_path: Path) -> None:
    tool = Entry("demo/bin/tool", b"#!/bin/sh\n", mode=0o104777)
    plain = Entry("demo/share/plain", b"", mode=0o100666)
    archive = build_cpp_archive(tmp_path, {**LIBRARY, "bin/tool": tool, "share/plain": plain})
    folder = unpack_into(tmp_path / "to", archive).folder / "demo"
    assert (folder / "bin/tool").stat().st_mode & 0o7777 == 0o755
    assert (folder / "share/plain").stat().st_mode & 0o7777 == 0o644


def link_in_tar(target: str, kind: bytes = b"2") -> TarMember:
    return TarMember("", kind=kind, target=target)


LINKED = {
    "zip": {"lib/libdemo.so": Entry("demo/lib/libdemo.so", b"libdemo.a", mode=SYMLINK)},
    "tar.gz": {"lib/libdemo.so": link_in_tar("libdemo.a")},
}


@pytest.mark.skipif(os.name != "posix", reason="links need a privilege there")
@pytest.mark.parametrize("form", LINKED)
def test_a_link_leads_where_it_led(form: str, tmp_path: Path) -> None:
    archive = build_cpp_archive(tmp_path, {**LIBRARY, **LINKED[form]}, name=f"demo-1.0.{form}")
    folder = unpack_into(tmp_path / "to", archive).folder
    link = folder / "demo/lib/libdemo.so"
    assert str(link.readlink()) == "libdemo.a"
    folder.rename(tmp_path / "moved")
    assert (tmp_path / "moved/demo/lib/libdemo.so").read_bytes() == b"!<arch>\n"


def test_a_hard_link_is_the_file(tmp_path: Path) -> None:
    parts = {**LIBRARY, "lib/libother.a": link_in_tar("demo/lib/libdemo.a", b"1")}
    archive = build_cpp_archive(tmp_path, parts, name="demo-1.0.tar.gz")
    folder = unpack_into(tmp_path / "to", archive).folder
    assert (folder / "demo/lib/libother.a").read_bytes() == b"!<arch>\n"


HOSTILE: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "climbs": ({"x": Entry("demo/../../x", b"")}, "not a path below the folder"),
    "absolute": ({"x": Entry("/x", b"")}, "not a path below the folder"),
    "drive": ({"x": Entry("C:/x", b"")}, "not a path below the folder"),
    "backslash": ({"x": Entry("demo\\..\\x", b"")}, "not a path below the folder"),
    "twice": ({"x": Entry("demo/include/demo.h", b"")}, "is there twice"),
    "behind a file": ({"x": Entry("demo/include/demo.h/x", b"")}, "which is not a folder"),
    "behind a link": (
        {
            "out": Entry("demo/out", b"include", mode=SYMLINK),
            "in": Entry("demo/out/x", b"content"),
        },
        "which is not a folder",
    ),
    "pipe": ({"x": Entry("demo/x", b"", mode=FIFO)}, "neither a file, a folder nor a link"),
    "leads out": ({"x": Entry("demo/x", b"../../etc", mode=SYMLINK)}, "outside of the package"),
    "leads to the root": ({"x": Entry("demo/x", b"/etc", mode=SYMLINK)}, "outside of the package"),
    "leads nowhere": ({"x": Entry("demo/x", b"", mode=SYMLINK)}, "outside of the package"),
}


@pytest.mark.parametrize("parts, reason", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_member_is_refused(parts: Mapping[str, Any], reason: str, tmp_path: Path) -> None:
    archive = build_cpp_archive(tmp_path / "deep/deeper", {**LIBRARY, **parts})
    with pytest.raises(RefusedMember, match=reason):
        unpack_into(tmp_path / "deep/to", archive)
    assert {path.name for path in (tmp_path / "deep").iterdir()} == {"deeper", "to"}
    assert {path.name for path in tmp_path.iterdir()} == {"deep"}


def test_links_that_lead_out_together_are_refused(tmp_path: Path) -> None:
    """Each stays inside by its own text; one of them goes by way of the other."""
    parts = {
        "a": Entry("demo/lib/a", b"..", mode=SYMLINK),  # demo itself
        "b": Entry("demo/b", b"lib/a/../../x", mode=SYMLINK),  # by its text demo/x
        "c": Entry("x", b"demo", mode=SYMLINK),
    }
    archive = build_cpp_archive(tmp_path, {**LIBRARY, **parts})
    unpacked = unpack_into(tmp_path / "to", archive).folder
    outside = [path for path in unpacked.rglob("*") if not path.resolve().is_relative_to(unpacked)]
    assert outside == []


def test_a_file_that_has_changed_since_it_was_read_is_nobodys_package(tmp_path: Path) -> None:
    archive = build_cpp_archive(tmp_path, LIBRARY)
    package = read(archive)
    build_cpp_archive(tmp_path, {"lib/libdemo.a": b"!<arch>\nother"})
    (tmp_path / "to").mkdir()
    with closing(open_tree(archive)) as tree, pytest.raises(GatherError, match="has grown"):
        unpack(tree, replace(package, path=archive), tmp_path / "to", seconds=60)


def test_a_disk_without_room_is_the_hosts_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = shutil._ntuple_diskusage(1 << 40, 1 << 40, 1 << 20)  # type: ignore[attr-defined]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    archive = build_cpp_archive(tmp_path, LIBRARY)
    with pytest.raises(GatherError, match="1 MiB are free for temporary files"):
        unpack_into(tmp_path / "to", archive)


def test_what_takes_too_long_is_not_inspected(tmp_path: Path) -> None:
    archive = build_cpp_archive(tmp_path, LIBRARY)
    with pytest.raises(Unavailable, match="takes more than 0 s"):
        unpack_into(tmp_path / "to", archive, seconds=0)


@pytest.fixture
def place(tmp_path: Path) -> UnpackedPlace:
    package = read(build_cpp_archive(tmp_path, LIBRARY))
    settings = PlaceSettings(python=Path(sys.executable), timeout=60)
    return require_builds(choose_place(package, settings))


@pytest.mark.skipif(os.name != "posix", reason="paths of POSIX")
def test_the_package_lies_in_another_folder_than_it_was_unpacked_in(
    place: UnpackedPlace, tmp_path: Path
) -> None:
    with place:
        report = place.install(read(tmp_path / "demo-linux-x86_64-1.0.zip"))
        assert report is not None
        assert not report.error
        assert (place.prefix / "include/demo.h").is_file()
        assert not (place.folder / "unpacked").exists()
        folder = place.folder
        assert place.scrub(f"{place.prefix}/lib/x {place.work}/y") == "lib/x build/y"
    assert not folder.exists()


def test_what_is_refused_cannot_be_built_against(place: UnpackedPlace, tmp_path: Path) -> None:
    package = read(build_cpp_archive(tmp_path, {**LIBRARY, "x": Entry("demo/../../x", b"")}))
    with place, pytest.raises(Unavailable, match="is not a path below the folder"):
        place.require_unpacked(package)


def test_no_probe_of_python_is_for_an_archive(place: UnpackedPlace, tmp_path: Path) -> None:
    """The profile torch has snippets that import torch, and is used for libtorch, too."""
    package = read(build_cpp_archive(tmp_path, LIBRARY))
    request = SnippetRequest(code={"version": "import torch"})
    with place:
        with pytest.raises(NotApplicable, match="no package for Python"):
            run_snippets(place, package, request)
        with pytest.raises(NotApplicable, match="no package for Python"):
            ask_without_gpu(place, package, CudaRequest(module="torch"))
        place.require_unpacked(package)


def test_a_build_folder_is_made_under_a_name_that_cannot_be_guessed(tmp_path: Path) -> None:
    """What ran before could else put a link there, through which this host would write."""
    place = UnpackedPlace(PlaceSettings(python=Path(sys.executable), timeout=1))
    with place:
        (place.work / "unit0").symlink_to(tmp_path)
        one, other = place.make_folder("unit0"), place.make_folder("unit0")
        assert one != other
        assert {one.parent, other.parent} == {place.work}
        assert list(tmp_path.iterdir()) == []
