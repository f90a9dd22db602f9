"""Scripts that the shell reads, and stubs that a library reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from binary_checks import examine
from binary_checks.checks.contents import sbom_is_not_json
from binary_checks.checks.python_code.small_files import (
    foreign_interpreter,
    missing_stub_file,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Distribution,
    Finding,
    Level,
    NotInspected,
    Problem,
    SmallFiles,
    UnparsedSource,
    Wheel,
)
from fixtures.build_wheel import build_wheel
from fixtures.values import only, wheel

BUILD_MACHINE = ", which only the build machine has"
PURE: dict[str, Any] = {"tags": ("py3-none-any",), "root_is_purelib": True}


def read(folder: Path, members: Mapping[str, Any], **fields: Any) -> tuple[Wheel, SmallFiles]:
    path = build_wheel(folder, members=members, **{**PURE, **fields})
    with examine(path) as examination:
        return examination.get(Wheel), examination.get(SmallFiles)


def judge_script(folder: Path, content: bytes, **fields: Any) -> list[Finding]:
    members = {"demo/__init__.py": "", "demo-1.0.data/scripts/healthy": b"#!python\n"}
    members["demo-1.0.data/scripts/tool"] = content
    return list(foreign_interpreter(*read(folder, members, **fields)))


@pytest.mark.parametrize(
    ("path", "rest", "whose", "level"),
    [
        ("/opt/conda/envs/build/bin/python3.11", "\nimport demo", BUILD_MACHINE, Level.ERROR),
        ("/usr/local/bin/perl", " -w", BUILD_MACHINE, Level.ERROR),
        ("/usr/bin/python3", " -E", ", not by the Python of the environment", Level.WARNING),
    ],
)
def test_a_script_names_an_interpreter_that_users_lack(
    tmp_path: Path, path: str, rest: str, whose: str, level: Level
) -> None:
    found = only(Problem, judge_script(tmp_path, f"#!{path}{rest}\n".encode()))
    system = "the system's " if level is Level.WARNING else ""
    sentence = f"is run by {system}{path}{whose}"
    assert (found.path, found.sentence, found.level) == ("bin/tool", sentence, level)
    assert found.facts[0] in sentence


def test_a_carriage_return_belongs_to_the_name_of_the_interpreter(tmp_path: Path) -> None:
    linux = {"tags": ("py3-none-manylinux_2_17_x86_64",)}
    content = b"#!/usr/bin/env python3\r\nimport demo\r\n"
    found = only(Problem, judge_script(tmp_path, content, **linux))
    assert found.sentence == "its first line ends in a carriage return: there is no python3\\r"
    with pytest.raises(NotApplicable):  # Windows reads no first line
        judge_script(tmp_path, b"#!/opt/python\n", tags=("py3-none-win_amd64",))
    files = SmallFiles(unread=(UnparsedSource(path="bin/tool", reason="broken"),))
    gap = NotInspected(path="bin/tool", sentence="broken")
    assert list(foreign_interpreter(wheel(), files)) == [gap]


@pytest.mark.parametrize(
    "content",
    [
        b"#!python\nimport demo\n",
        b"#!/usr/bin/env python3\r\nimport demo\r\n",
        b"#!pythonw\r\n",
        b"#!/usr/bin/env python3\n",
        b"#! /bin/sh -e\n",
        b"#!/bin/bash\n",
        b"@echo off\r\n",
    ],
)
def test_a_script_that_runs_everywhere(tmp_path: Path, content: bytes) -> None:
    assert judge_script(tmp_path, content) == []


STUB = "import lazy_loader\nlazy_loader.attach_stub(__name__, __file__)\n"


def test_a_module_reads_a_stub_that_is_not_there(tmp_path: Path) -> None:
    members = {
        "demo/__init__.py": STUB,
        "demo/there/__init__.py": STUB,
        "demo/there/__init__.pyi": "from .x import y\n",
        "demo/tests/__init__.py": STUB,
    }
    package, files = read(tmp_path, members, requires=["lazy_loader>=0.4"])
    assert isinstance(package, Distribution)
    found = {
        package.layout.inside(each.path): (each.sentence, each.level)  # type: ignore[union-attr]
        for each in missing_stub_file(package, files)
    }
    sentence = "reads __init__.pyi when it is imported, which is not there"
    assert found == {
        "demo/__init__.py": (sentence, Level.ERROR),
        "demo/tests/__init__.py": (sentence, Level.WARNING),
    }
    with pytest.raises(NotApplicable):  # it requires no library that reads stubs
        list(missing_stub_file(*read(tmp_path / "without", members)))


SBOMS = "demo-1.0.dist-info/sboms/"


@pytest.mark.parametrize("content", ["", "not JSON", '{"bomFormat": ', b"\xff{}", "[" * 100_000])
def test_an_sbom_that_is_not_json_is_a_warning(tmp_path: Path, content: str | bytes) -> None:
    assert sbom_is_not_json.level is Level.WARNING
    given = read(tmp_path, {"demo/__init__.py": "", f"{SBOMS}auditwheel.cdx.json": content})
    problem = only(Problem, sbom_is_not_json(*given))
    assert problem.path.endswith(f"{SBOMS}auditwheel.cdx.json")
    assert problem.sentence.startswith("is named like JSON, but is not: ")


def test_an_sbom_in_json_or_another_format_is_quiet(tmp_path: Path) -> None:
    members = {"demo/__init__.py": "", f"{SBOMS}a.spdx": "SPDXVersion: SPDX-2.3\n"}
    json = {f"{SBOMS}auditwheel.cdx.json": '{"bomFormat": "CycloneDX"}'}
    assert list(sbom_is_not_json(*read(tmp_path, {**members, **json}))) == []
    with pytest.raises(NotApplicable, match="no SBOM"):
        list(sbom_is_not_json(*read(tmp_path, members)))
    unread = UnparsedSource(path=f"lib/python3.11/site-packages/{SBOMS}a.json", reason="broken")
    assert only(NotInspected, sbom_is_not_json(wheel(), SmallFiles(unread=(unread,))))
