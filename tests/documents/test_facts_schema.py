"""The JSON Schema of facts accepts documents of real packages, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from binary_checks import objects, packages
from binary_checks.documents.facts import describe_facts, write_facts
from binary_checks.model import (
    CubinGroup,
    DeviceDetails,
    DeviceKind,
    DeviceTarget,
    ObjectDetails,
    Package,
    UnreadDeviceCode,
)
from fixtures.build_wheel import build_wheel
from fixtures.documentation import FACTS
from fixtures.values import elf_file, macho_file, pe_file, symbols, wheel

SCHEMA = jsonschema.Draft202012Validator(describe_facts())


def facts(package: Package) -> dict[str, Any]:
    read: dict[str, Any] = json.loads("".join(write_facts(package, "ab" * 32, None, symbols=True)))
    return read


def test_the_committed_schema_is_the_one_of_the_model() -> None:
    assert json.loads(FACTS.read_text(encoding="utf-8")) == describe_facts()
    jsonschema.Draft202012Validator.check_schema(describe_facts())


def test_the_document_of_a_wheel_that_was_read_fits(tmp_path: Path) -> None:
    samples = Path(__file__).parents[2] / "fixtures" / "samples"
    found = [path for path in sorted(samples.rglob("*")) if path.suffix in {".so", ".dll", ".pyd"}]
    members = {f"demo/{path.name}": path.read_bytes() for path in found}
    built = build_wheel(tmp_path, members={"demo/__init__.py": "", **members})
    package = packages.open_package(built, objects)
    document = facts(package)
    SCHEMA.validate(document)
    assert document["package"]["layout"]["site_packages"] == "lib/python3.11/site-packages"
    assert document["package"]["layout"]["scripts"] == "bin"
    (system,) = document["package"]["claims"]["systems"]
    assert (system["libc"], system["minimum"]) == ("glibc", [2, 17])
    assert document["members"][0]["path"] == "lib/python3.11/site-packages/demo/__init__.py"


def test_the_objects_of_every_format_fit() -> None:
    made = (
        elf_file("demo/a.so", imports=symbols("memcpy@GLIBC_2.14")),
        macho_file("demo/b.so", exports=symbols("_PyInit_b")),
        pe_file("demo/c.pyd"),
    )
    document = facts(wheel(objects=made))
    SCHEMA.validate(document)
    assert [row["format"] for row in document["object_files"]] == ["ELF", "Mach-O", "PE"]


def test_the_inside_of_device_code_fits_where_it_was_asked_for() -> None:
    cubins = (CubinGroup(target=DeviceTarget(kind=DeviceKind.SASS), toolkit="13.2"),)
    unread = (UnreadDeviceCode(offset=1, count=2, reason="cut", broken=True),)
    item = ObjectDetails(path="demo/a.so", entries=3, cubins=cubins, unread=unread)
    details = DeviceDetails(objects=(item,))
    text = "".join(write_facts(wheel(), "ab" * 32, None, details=details, symbols=True))
    document = json.loads(text)
    SCHEMA.validate(document)
    assert document["device_details"] == [
        {
            "path": "demo/a.so",
            "entries": 3,
            "cubins": [{"target": {"kind": "sass"}, "toolkit": "13.2"}],
            "unread": [{"offset": 1, "count": 2, "reason": "cut", "broken": True}],
        }
    ]
    assert "device_details" not in facts(wheel())


@pytest.mark.parametrize(
    "damage",
    [
        lambda document: document.update(schema="binary-checks/facts/1"),
        lambda document: document["package"].pop("layout"),
        lambda document: document["package"]["claims"].update(odd=1),
        lambda document: document["object_files"][0].update(path=1),
        lambda document: document["object_files"][0].update(format="COFF"),
        lambda document: document["members"][0].update(odd=1),
    ],
)
def test_a_document_that_says_something_else_does_not_fit(
    damage: Callable[[dict[str, Any]], object],
) -> None:
    document = facts(wheel(objects=(elf_file("demo/a.so"),)))
    SCHEMA.validate(document)
    damage(document)
    assert not SCHEMA.is_valid(document)
