"""The document of an artifact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from binary_checks.errors import RecordError
from binary_checks.fleet.artifacts import (
    Artifact,
    CompanionFile,
    LinkedAs,
    read_artifact,
    write_artifact,
)

DOCS = Path(__file__).parents[3] / "docs"
ARTIFACT = Artifact(
    sha256="a" * 64,
    file_name="demo-1.0-py3-none-any.whl",
    size=12,
    kind="wheel",
    project="demo",
    version="1.0",
    commit="c" * 40,
    variant="cu126",
    evidence={"variant": "the version 1.0+cu126"},
    libraries=(LinkedAs(library="OpenSSL", how="static", evidence="a.so: OpenSSL 3.0.1"),),
    companions=(CompanionFile(path="licenses/LICENSE", sha256="b" * 64, size=3),),
    record={"name": "demo", "depends": ["python >=3.12"], "build_number": 0},
    pushed="2026-11-22T18:00:00Z",
)


def changed(**fields: Any) -> bytes:
    row = {**json.loads(write_artifact(ARTIFACT)), **fields}
    return json.dumps(row).encode()


def test_an_artifact_is_read_as_it_was_written() -> None:
    assert read_artifact(write_artifact(ARTIFACT), "artifact.json") == ARTIFACT


def test_its_document_is_as_the_schema_says() -> None:
    schema = json.loads((DOCS / "artifact.schema.json").read_text())
    jsonschema.validate(json.loads(write_artifact(ARTIFACT)), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**json.loads(write_artifact(ARTIFACT)), "surprise": 1}, schema)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (write_artifact(ARTIFACT)[:-9], "not JSON"),
        (changed(schema="binary-checks/artifact/3"), "a newer binary-checks wrote it"),
        (changed(schema="binary-checks/plan/1"), "not binary-checks/artifact/2"),
        (changed(sha256="a"), "sha256: not a digest of 64 hexadecimal digits"),
        (changed(sha256=""), "sha256: not a digest of 64 hexadecimal digits"),
        (changed(kind="sdist"), "kind: 'sdist' is not one of wheel, conda"),
        (changed(linked="dynamic, static"), "linked: 'dynamic, static' is not one of dynamic"),
        (changed(branch="a b"), "branch: 'a b' is not the name of a branch"),
        (changed(size=-1), "size: less than 0"),
        (changed(file_name="../x.whl"), "file_name: '../x.whl' cannot name an object"),
        (changed(commit="aaaaaaaaaaa.b"), "commit: 'aaaaaaaaaaa.b' is not a hash"),
        (changed(file_name="with"), "a name that the store uses itself"),
        (changed(file_name="Licenses"), "a name that the store uses itself"),
        (changed(project="a/b"), "project: 'a/b' cannot name an object"),
        (changed(surprise=1), 'unknown field "surprise"'),
        (changed(record=[]), "record: not an object"),
        (
            changed(companions=[{"path": "licenses/../x", "sha256": "b" * 64, "size": 1}]),
            "companions: '../x' cannot name an object",
        ),
        (
            changed(companions=[{"path": "bin/x", "sha256": "b" * 64, "size": 1}]),
            "companions: 'bin/x' is neither a license nor a dependency",
        ),
        (
            changed(
                companions=[
                    {"path": f"licenses/{name}", "sha256": "b" * 64, "size": 1}
                    for name in ("LICENSE", "license")
                ]
            ),
            "companions: 'licenses/license' is listed twice",
        ),
    ],
)
def test_another_document_is_refused_in_one_line(content: bytes, reason: str) -> None:
    with pytest.raises(RecordError, match=r"^there/artifact\.json: ") as refused:
        read_artifact(content, "there/artifact.json")
    assert reason in str(refused.value)
