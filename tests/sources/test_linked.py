"""A package of a conda prefix is known by what conda's tools noted of it, and no less judged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from binary_checks import objects
from binary_checks.errors import PackageError
from binary_checks.model import LinkedPackage
from binary_checks.sources.installed import LinkedSource, find_linked
from fixtures.build_elf import build_elf

SITE = "lib/python3.11/site-packages"
FILES = {"lib/libx.so.1": build_elf(soname="libx.so.1"), "share/x/README": b"read me\n"}


def link(
    prefix: Path, name: str = "libx", files: Mapping[str, bytes] = FILES, **stated: Any
) -> LinkedSource:
    """Put files into a prefix, and note them as conda does."""
    for path, content in files.items():
        (prefix / path).parent.mkdir(parents=True, exist_ok=True)
        (prefix / path).write_bytes(content)
    rows = [
        {"_path": path, "path_type": "hardlink", "sha256": hashlib.sha256(content).hexdigest()}
        for path, content in files.items()
    ]
    record = {
        "name": name,
        "version": "1.2",
        "build": "h0_0",
        "subdir": "linux-64",
        "depends": ["__glibc >=2.17"],
        "files": list(files),
        "paths_data": {"paths": rows},
        **stated,
    }
    (prefix / "conda-meta").mkdir(exist_ok=True)
    text = json.dumps({key: value for key, value in record.items() if value is not None})
    (prefix / f"conda-meta/{name}-1.2-h0_0.json").write_text(text, encoding="utf-8")
    found = find_linked(name, prefix)
    assert found is not None
    return found


def read(source: LinkedSource) -> LinkedPackage:
    package = source.read(objects).package
    assert isinstance(package, LinkedPackage)
    return package


def faults(package: LinkedPackage) -> dict[str, tuple[str, ...]]:
    return {member.path: member.faults for member in package.members if member.faults}


def test_a_library_is_read_by_its_record(tmp_path: Path) -> None:
    package = read(link(tmp_path))
    assert (package.name, package.version, package.build) == ("libx", "1.2", "h0_0")
    assert package.file_name == "installed:libx"
    assert {member.path for member in package.members} == FILES.keys()
    assert [item.path for item in package.objects] == ["lib/libx.so.1"]
    assert package.claims.systems[0].minimum == (2, 17)
    assert faults(package) == {}
    of_old_tools = read(link(tmp_path, paths_data=None))
    assert {member.path for member in of_old_tools.members} == FILES.keys()


def test_what_is_for_every_python_lies_where_this_one_looks(tmp_path: Path) -> None:
    files = {f"{SITE}/demo/__init__.py": b""}
    package = read(link(tmp_path, "demo", files, subdir="noarch", noarch="python"))
    assert package.layout.site_packages == SITE


def test_names_count_as_those_of_distributions(tmp_path: Path) -> None:
    link(tmp_path, "Lib_X.y")
    found = find_linked("lib-x-y", tmp_path)
    assert found is not None
    assert found.label == "installed:lib-x-y"
    assert find_linked("lib", tmp_path) is None


def test_a_changed_file_and_a_lost_one_are_faults(tmp_path: Path) -> None:
    source = link(tmp_path, files={**FILES, "share/x/more": b"1", "share/x/most": b"2"})
    (tmp_path / "share/x/README").write_bytes(b"changed")
    (tmp_path / "share/x/more").unlink()
    assert faults(read(source)) == {
        "share/x/README": (
            "it is not what conda-meta says: it was changed after the installation",
        ),
        "share/x/more": ("conda-meta names it, and it is not there: No such file or directory",),
    }


def test_a_prefix_half_deleted_is_one_line(tmp_path: Path) -> None:
    source = link(tmp_path)
    for path in FILES:
        (tmp_path / path).unlink()
    with pytest.raises(PackageError) as caught:
        read(source)
    assert str(caught.value) == (
        "installed:libx: 2 of 2 files that conda-meta names are missing (the first is "
        "lib/libx.so.1): the prefix is damaged, create it again"
    )


@pytest.mark.parametrize("text", ["", "[]", "{", '{"name": 1}', "[" * 100_000])
def test_a_damaged_record_is_one_line(tmp_path: Path, text: str) -> None:
    source = link(tmp_path)
    source.record.write_text(text, encoding="utf-8")
    with pytest.raises(PackageError) as caught:
        read(source)
    assert str(caught.value).startswith("installed:libx: conda-meta/libx-1.2-h0_0.json cannot be ")
    assert "\n" not in str(caught.value)


def test_a_record_names_nothing_outside_of_the_prefix(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    prefix = tmp_path / "prefix"
    prefix.mkdir()
    rows = [{"_path": "../secret"}, {"_path": "lib/libx.so.1"}, {"_path": "share/x/README"}]
    package = read(link(prefix, paths_data={"paths": rows}))
    assert faults(package) == {
        "../secret": ("it is outside the environment and was not inspected",)
    }


def test_what_lies_beside_it_is_found_by_name(tmp_path: Path) -> None:
    link(tmp_path, "liby", {"lib/liby.so.1": build_elf(soname="liby.so.1")})
    read_neighbour = link(tmp_path).neighbours(objects)
    neighbour = read_neighbour("liby")
    assert neighbour is not None
    assert [item.path for item in neighbour.objects] == ["lib/liby.so.1"]
    assert [member.sha256 for member in neighbour.members] == [""]
    assert read_neighbour("libz") is None


def test_it_is_known_by_what_its_record_says_of_files(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    assert link(one).identity() == link(other, link={"source": "/pkgs"}).identity()
    changed = link(other, files={**FILES, "share/x/README": b"other"})
    assert link(one).identity() != changed.identity()
