"""Selecting artifacts by the axes of cells."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from binary_checks.errors import ProfileError
from binary_checks.fleet.artifacts import (
    Artifact,
    FoundArtifact,
    choose,
    find_with_gpu,
    format_nearest,
    keep_latest,
    read_selection,
    tabulate_found,
    tell_apart,
    write_found,
)
from binary_checks.fleet.night import Cell
from binary_checks.knowledge.configurations import same_version

DOCS = Path(__file__).parents[3] / "docs"


def make(**said: str) -> FoundArtifact:
    row = {"project": "demo", "version": "1.0", "kind": "wheel", "commit": "c" * 40, **said}
    name = f"{'-'.join(said.values())}.whl"
    artifact = Artifact(sha256="a" * 64, file_name=name, size=1, **row)  # type: ignore[arg-type]
    return FoundArtifact(artifact=artifact, channels=("test",))


@pytest.mark.parametrize(
    ("said", "where", "meant"),
    [
        ({"variant": "cu130"}, "variant=cu130", True),
        ({"variant": "cu130"}, "variant=cu*", True),
        ({"variant": "cpu"}, "variant=cu*", False),
        ({}, "variant=cpu", False),
        ({"python": "3.12"}, "python=3.12", True),
        ({"python": "3.12t"}, "python=3.12", False),
        ({"python": "3.9+"}, "python=3.12", True),
        ({"python": "3.13+"}, "python=3.12", False),
        ({"python": "any"}, "python=3.12", True),
        ({"python": "any", "requires_python": ">=3.13"}, "python=3.12", False),
        ({"python": "any", "requires_python": ">=3.12.4"}, "python=3.12", True),
        ({"python": "any", "requires_python": "nonsense"}, "python=3.12", True),
        ({"python": "3.10, 3.12"}, "python=3.12", True),
        ({"system": "linux"}, "system=linux", True),
        ({"system": "musllinux"}, "system=linux", False),
        ({"system": "linux, musllinux"}, "system=linux", True),
        ({"system": "manylinux_2_28"}, "system=linux", True),
        ({"system": "macosx_14_0"}, "system=macos", True),
        ({"system": "any"}, "system=linux architecture=x86_64", False),
        ({"system": "any", "architecture": "any"}, "system=linux architecture=x86_64", True),
        ({"architecture": "arm64, x86_64"}, "architecture=arm64", True),
        ({"project": "ruamel-yaml"}, "project=ruamel.yaml", True),
        ({}, f"commit={'C' * 9}", True),
        ({}, f"commit=ccccccc sha256={'a' * 64}", True),
        ({}, "commit=ccccccd", False),
        ({}, "commit=none", False),
        ({"commit": ""}, "commit=none", True),
        ({"version": "1.0"}, "version=1", True),
        ({"version": "1.0+cu126"}, "version=1.0*", True),
        ({"version": "1.1"}, "version=1.0", False),
        ({"branch": "release/1.0"}, "branch=release/*", True),
        ({"branch": "main"}, "branch=none", False),
        ({}, "branch=none linked=none", True),
        ({"linked": "static"}, "linked=static", True),
        ({"linked": "dynamic"}, "linked=static", False),
        ({}, "linked=static", False),
        ({"pull_request": "7"}, "pull_request=7", True),
    ],
)
def test_a_condition_means_what_would_serve(said: dict[str, str], where: str, meant: bool) -> None:
    found = [make(**said)]
    assert choose(found, read_selection([where])) == (found if meant else [])


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("pyhton=3.12", "unknown axis 'pyhton'; did you mean 'python'"),
        ("linked=statc", "unknown linked 'statc'; did you mean 'static'"),
        ("kind=weel", "unknown kind 'weel'; did you mean 'wheel'"),
        ("commit=ccc", "commit=ccc: not 7 to 64 hexadecimal digits"),
        ("branch", "branch: not AXIS=GLOB"),
    ],
)
def test_a_condition_that_no_artifact_can_meet_is_refused(where: str, reason: str) -> None:
    with pytest.raises(ProfileError, match=f"--where: {reason}"):
        read_selection([where])


def test_the_latest_of_each_configuration_is_the_newest_version() -> None:
    found = [
        make(version="1.9", python="3.12"),
        make(version="1.10", python="3.12"),
        make(version="1.10", python="3.12", pushed="2026"),
        make(version="1.2", python="3.11"),
        make(version="1.10rc1", python="3.12"),
        make(version="1.1.1w", python="3.13"),
        make(version="0", python="3.13"),
    ]
    assert keep_latest(found) == [found[6], found[3], found[2]]


def test_builds_with_other_blas_of_other_branches_or_linked_otherwise_are_each_the_latest() -> None:
    found = [
        make(version="1.9", blas="openblas"),
        make(version="1.10", blas="mkl"),
        make(version="1.10", blas="openblas"),
        make(version="1.10", blas="openblas", pushed="2026"),
    ]
    assert keep_latest(found) == [found[1], found[3]]
    main, old = make(version="1.10", branch="main"), make(version="1.9", branch="1.9.x")
    static = make(version="1.10", branch="main", linked="static")
    assert keep_latest([make(version="1.8", branch="1.9.x"), old, main, static]) == [
        *(old, static, main),
    ]


def test_versions_of_digits_without_end_are_other_versions() -> None:
    endless = "1" * 5000
    assert not same_version(endless, "1")
    assert same_version(endless, endless)
    found = [make(version=each) for each in (endless, "1.0")]
    assert keep_latest(found) == [found[1]]


def test_several_are_told_apart_by_what_differs() -> None:
    found = [make(python="3.9", variant="cpu"), make(python="3.10", variant="cpu")]
    names, lines = tell_apart(found)
    assert names == ["python"]
    assert lines == [f"{each}-cpu.whl: python={each} sha256={'a' * 12}" for each in ("3.9", "3.10")]


def test_of_none_the_nearest_is_named_with_what_it_has_otherwise() -> None:
    found = [make(variant="cpu", python="3.11"), make(variant="cu126", python="3.12")]
    assert format_nearest(found, read_selection(["variant=cu130 python=3.12"])) == (
        "the nearest is cu126-3.12.whl: variant cu126 and not cu130"
    )
    assert format_nearest([], read_selection([])) == "there are no artifacts"


def test_a_table_has_the_axes_that_somebody_has() -> None:
    head, row = tabulate_found([make(python="3.12")])
    assert head == ("project", "version", "kind", "python", "channels", "commit", "file")
    assert row == ("demo", "1.0", "wheel", "3.12", "test", "c" * 12, "3.12.whl")


def test_what_is_found_is_a_document_as_its_schema_says() -> None:
    document = json.loads(write_found([make(python="3.12"), make()]))
    schema = json.loads((DOCS / "found-artifacts.schema.json").read_text())
    jsonschema.validate(document, schema)
    assert [each["channels"] for each in document["artifacts"]] == [["test"], ["test"]]
    assert json.loads(write_found([]))["artifacts"] == []
    document["artifacts"][0]["artifact"]["size"] = "big"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def test_what_is_deleted_has_the_value_itself() -> None:
    builds = [make(python=each) for each in ("3.12", "3.9+", "any")]
    own = read_selection(["python=3.12"], own=True)
    assert choose(builds, own) == builds[:1]
    assert len(choose(builds, read_selection(["python=3.12"]))) == 3


def test_a_cell_with_a_gpu_asks_for_a_file_that_leaves_out_a_part_of_its_python() -> None:
    cell = Cell(id="a", project="demo", python="3.12", gpu=True)
    found = make(python="3.9+", requires_python=">=3.9,!=3.12.99,<3.12.8").artifact
    assert find_with_gpu([cell], [found]) == {found.sha256}
