"""The units of a consumer are tables with keys of their own, which are merged and contain code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError
from binary_checks.model import Code, ConsumerRequest, TranslationUnit
from binary_checks.profile import Profile, leave_out_code, load_profile, validate


def profile(folder: Path, text: str) -> Profile:
    path = folder / "p.toml"
    path.write_text(text, encoding="utf-8")
    return load_profile(str(path))


def test_units_of_a_consumer_add_to_those_of_the_extended_profile(tmp_path: Path) -> None:
    base = "[probes.consumer.units.a]\nsource = 'int a;'\n[probes.consumer.units.b]\nsource = 'b'\n"
    (tmp_path / "base.toml").write_text(base)
    text = "extends = 'base.toml'\n[probes.consumer.units.b]\nsource = ''\ngpu = true\n"
    read = validate(profile(tmp_path, text), [])
    units = {
        "a": TranslationUnit(source=Code("int a;")),
        "b": TranslationUnit(source=Code(""), gpu=True),
    }
    assert read.requests == {ConsumerRequest: ConsumerRequest(units=units)}


def test_of_a_profile_that_nobody_named_no_unit_is_built(tmp_path: Path) -> None:
    text = (
        "[probes.consumer]\npackage = 'X'\nstandard = 17\n[probes.consumer.units.a]\nsource = 'a'\n"
    )
    found = leave_out_code(profile(tmp_path, text), [])
    assert found.probes == {"consumer": {"standard": 17}}
    assert found.left_out == ("probes.consumer.package", "probes.consumer.units")


def test_a_unit_may_stand_in_a_file_beside_the_profile(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text("int main() {}\n")
    read = validate(profile(tmp_path, "[probes.consumer.units.a]\nfile = 'a.cpp'\n"), [])
    units = {"a": TranslationUnit(source=Code("int main() {}\n"))}
    assert read.requests == {ConsumerRequest: ConsumerRequest(units=units)}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[probes.consumer.units.a]\nfile = 'gone.cpp'",
            "profile P: probes.consumer.units.a.file: gone.cpp: No such file or directory",
        ),
        (
            "[probes.consumer.units.a]\nfile = 'x.cpp'\nsource = ''",
            "profile P: probes.consumer.units.a: it has both 'file' and 'source'",
        ),
        (
            "[probes.consumer.units.a]\nfile = 1",
            "profile P: probes.consumer.units.a.file: 1 is not a str",
        ),
        (
            "[probes.consumer.units.a]\nprints = 'x'",
            "profile P:1: probes.consumer.units.a: it has no 'source'",
        ),
        (
            "[probes.consumer.units.a]\nsource = ''\nprint = 'x'",
            "profile P:3: probes.consumer.units.a: unknown key 'print'; did you mean 'prints'?",
        ),
        (
            "[probes.consumer.units.a]\nsource = 1",
            "profile P:2: probes.consumer.units.a.source: 1 is not a str",
        ),
        (
            "[probes.consumer.units]\na = 'x'",
            "profile P:2: probes.consumer.units.a: 'x' is not a table",
        ),
    ],
)
def test_a_unit_that_cannot_be_followed_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(ProfileError) as caught:
        validate(profile(tmp_path, text), [])
    assert str(caught.value).replace(str(tmp_path / "p.toml"), "P") == line


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such pipes")
def test_a_pipe_is_no_source(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.cpp")
    with pytest.raises(ProfileError, match="not a file"):
        profile(tmp_path, "[probes.consumer.units.a]\nfile = 'a.cpp'\n")
