"""repodata.json of a conda channel: which packages it lists, and which it never does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from binary_checks.fleet.artifacts import Artifact, DerivedIndex
from tests.fleet.artifacts.made_artifacts import index_members

RECORD = {
    "name": "demo",
    "version": "1.0",
    "build": "h0_0",
    "build_number": 0,
    "depends": ["python >=3.11"],
    "subdir": "linux-64",
}


def conda(
    number: int = 1, subdir: str = "linux-64", suffix: str = ".conda", **said: Any
) -> Artifact:
    record = {**RECORD, "subdir": subdir, **said}
    return Artifact(
        sha256=f"{number:064x}",
        file_name=f"demo-1.0-h0_0{suffix}",
        size=10,
        kind="conda",
        project="demo",
        subdir=subdir,
        record=record,
    )


def index_of(*artifacts: Artifact, withdrawn: str | None = None) -> DerivedIndex:
    return index_members((each, withdrawn) for each in artifacts)


def read(index: DerivedIndex, subdir: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(index.pages[f"conda/release/{subdir}/repodata.json"])
    return found


def test_a_subdir_lists_its_packages_with_hash_and_size_and_they_lie_beside_it() -> None:
    found = index_of(conda())
    assert read(found, "linux-64") == {
        "info": {"subdir": "linux-64"},
        "packages": {},
        "packages.conda": {"demo-1.0-h0_0.conda": {**RECORD, "sha256": f"{1:064x}", "size": 10}},
        "removed": [],
        "repodata_version": 1,
    }
    assert read(found, "noarch")["packages.conda"] == {}  # it is always there
    (pair,) = found.files.items()
    assert pair[0] == "conda/release/linux-64/demo-1.0-h0_0.conda"
    assert pair[1].source == f"files/demo/linux-64/{1:064x}/demo-1.0-h0_0.conda"


def test_the_two_formats_stand_in_their_tables() -> None:
    found = read(index_of(conda(1), conda(2, suffix=".tar.bz2")), "linux-64")
    assert list(found["packages"]) == ["demo-1.0-h0_0.tar.bz2"]
    assert list(found["packages.conda"]) == ["demo-1.0-h0_0.conda"]


def test_one_file_name_may_stand_in_two_subdirs() -> None:
    found = index_of(conda(1, "linux-64"), conda(2, "osx-arm64"))
    assert found.faults == ()
    assert {name.split("/")[2] for name in found.files} == {"linux-64", "osx-arm64"}


def test_a_package_that_was_withdrawn_is_removed_and_still_lies_there() -> None:
    found = index_of(conda(), withdrawn="crashes")
    page = read(found, "linux-64")
    assert page["packages.conda"] == {}
    assert page["removed"] == ["demo-1.0-h0_0.conda"]
    assert list(found.files) == ["conda/release/linux-64/demo-1.0-h0_0.conda"]
    assert found.faults == ()


def test_a_record_has_what_solvers_read_and_hash_and_size_are_those_of_the_store() -> None:
    said = {"secret": "x" * 1000, "md5": 3, "sha256": "f" * 64, "size": 1, "url": "https://evil"}
    most = {"depends": ["a"] * 10_000, "timestamp": (1 << 53) - 1, "build_number": 0}
    found = read(index_of(conda(**said, **most)), "linux-64")
    record = found["packages.conda"]["demo-1.0-h0_0.conda"]
    assert {key: record[key] for key in most} == most
    assert (record["sha256"], record["size"]) == (f"{1:064x}", 10)
    assert "url" not in record
    assert "secret" not in json.dumps(found)
    assert "md5" not in json.dumps(found)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"name": None}, "index.json: name: not there"),
        ({"name": 3}, "index.json: name: wrong"),
        ({"version": ["1.0"]}, "index.json: version: wrong"),
        ({"build_number": "0"}, "index.json: build_number: wrong"),
        ({"build_number": -1}, "index.json: build_number: wrong"),
        ({"build_number": True}, "index.json: build_number: wrong"),
        ({"depends": "python"}, "index.json: depends: wrong"),
        ({"depends": ["a\nb"]}, "index.json: depends: wrong"),
        ({"depends": ["a"] * 10_001}, "index.json: depends: wrong"),
        ({"timestamp": 1 << 53}, "index.json: timestamp: wrong"),
        ({"noarch": "ruby"}, "index.json: noarch: wrong"),
        ({"name": "other"}, "its index.json names it 'other-1.0-h0_0'"),
        ({"version": "../1.0"}, "its index.json names it"),
    ],
)
def test_a_record_that_conda_could_not_read_takes_nobody_with_it(
    said: dict[str, Any], reason: str
) -> None:
    found = index_of(conda(1), conda(2, "osx-arm64", **said))
    (fault,) = found.faults
    assert reason in fault
    assert list(read(found, "linux-64")["packages.conda"]) == ["demo-1.0-h0_0.conda"]
    assert not any("osx" in name for name in (*found.pages, *found.files))


@pytest.mark.parametrize("subdir", ["", "../x", "linux-64/..", "Linux", "-", "a" * 80, "a\n"])
def test_a_subdir_that_is_none_is_not_listed(subdir: str) -> None:
    found = index_of(conda(1, subdir))
    assert "not a subdir of conda" in found.faults[0]
    assert [name for name in found.pages if name.startswith("conda/")] == []
