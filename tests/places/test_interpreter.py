"""What an interpreter answers becomes facts, on systems that are not at hand too."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from packaging.tags import Tag

from binary_checks.errors import GatherError, Unavailable
from binary_checks.places.running import TargetPython, identify, read_target, require_fit
from fixtures.environments import PYTHON
from fixtures.values import wheel

MACOS = {
    "implementation": "CPython",
    "version": "3.13.1",
    "free_threaded": True,
    "platform": "macosx-11.0-arm64",
    "machine": "arm64",
    "libc": "",
    "extension_suffixes": [".cpython-313t-darwin.so", ".so"],
    "paths": {"platlib": "/e/lib/python3.13t/site-packages"},
    "prefix": "/e",
    "tags": ["cp313-cp313t-macosx_11_0_arm64", "py3-none-any"],
}
WINDOWS = {
    **MACOS,
    "free_threaded": False,
    "platform": "win-amd64",
    "machine": "AMD64",
    "extension_suffixes": [".cp313-win_amd64.pyd", ".pyd"],
    "tags": ["cp313-cp313-win_amd64"],
}
MUSL = {**MACOS, "free_threaded": False, "tags": ["cp313-cp313-musllinux_1_2_x86_64"]}


def test_a_free_threaded_interpreter_on_macos_is_read() -> None:
    target = read_target(Path("python"), MACOS)
    assert target.name == "CPython 3.13.1 free-threaded"
    assert Tag("cp313", "cp313t", "macosx_11_0_arm64") in target.tags
    assert target.site_packages == Path("/e/lib/python3.13t/site-packages")
    assert target.architecture == "aarch64"


@pytest.mark.parametrize(
    ("answer", "tag", "fits"),
    [
        (MACOS, "cp313-cp313t-macosx_11_0_arm64", True),
        (MACOS, "cp313-cp313-macosx_11_0_arm64", False),
        (WINDOWS, "cp313-cp313-win_amd64", True),
        (WINDOWS, "cp313-cp313-manylinux_2_17_x86_64", False),
        (MUSL, "cp313-cp313-musllinux_1_2_x86_64", True),
        (MUSL, "cp313-cp313-manylinux_2_17_x86_64", False),
    ],
)
def test_tags_decide_what_fits(answer: dict[str, object], tag: str, fits: bool) -> None:
    target, package = read_target(Path("python"), answer), wheel(f"demo-1.0-{tag}.whl")
    if fits:
        require_fit(package, target)
        assert not target.tags.isdisjoint(package.tags)
    else:
        sentence = rf"^the wheel is for {tag}, the interpreter is CPython 3\.13\.1"
        with pytest.raises(Unavailable, match=sentence):
            require_fit(package, target)


@pytest.mark.parametrize(
    ("tag", "place"),
    [
        ("cp311-cp311-manylinux_2_28_aarch64", "linux x86_64"),
        ("cp311-cp311-win_amd64", "linux x86_64"),
        ("cp311-cp311-manylinux_2_99_x86_64", "linux x86_64 with glibc 2.36"),
    ],
)
def test_what_fits_not_is_said_with_what_decides(tag: str, place: str) -> None:
    linux = {**WINDOWS, "version": "3.11.7", "platform": "linux-x86_64", "libc": "glibc 2.36"}
    with pytest.raises(Unavailable) as caught:
        require_fit(wheel(f"demo-1.0-{tag}.whl"), read_target(Path("python"), linux))
    said = f"the wheel is for {tag}, the interpreter is CPython 3.11.7 on {place}"
    assert str(caught.value) == said


def test_of_many_tags_that_fit_not_one_is_named() -> None:
    package = wheel("demo-1.0-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl")
    sentence = r"cp312-cp312-manylinux2014_x86_64 \(and 1 more\), .* on win amd64$"
    with pytest.raises(Unavailable, match=sentence):
        require_fit(package, read_target(Path("python"), WINDOWS))


@pytest.mark.parametrize("missing", ["version", "paths", "tags", "platform"])
def test_an_answer_that_lacks_something_is_not_the_packages_fault(missing: str) -> None:
    answer = {key: value for key, value in MACOS.items() if key != missing}
    with pytest.raises(GatherError, match=f"does not report its {missing}"):
        read_target(Path("python"), answer)


def test_an_interpreter_too_old_for_packaging_has_tags_all_the_same() -> None:
    target = read_target(Path("python"), {**MACOS, "version": "3.8.18", "tags": None})
    assert Tag("py3", "none", "any") in target.tags
    assert {tag.abi for tag in target.tags if tag.interpreter == "cp38"} >= {"cp38", "abi3"}


def test_the_name_of_the_system_is_one_short_line() -> None:
    hostile = "Debian\x1b[31m\n::error::" + "x" * 500
    target = read_target(Path("python"), {**MACOS, "operating_system": hostile})
    assert target.operating_system.isprintable()
    assert len(target.operating_system) <= 100
    assert read_target(Path("python"), MACOS).operating_system == ""


def test_the_running_interpreter_says_who_it_is_and_on_which_system() -> None:
    target = identify(PYTHON, timeout=60)
    assert isinstance(target, TargetPython)
    assert Tag("py3", "none", "any") in target.tags
    assert target.extension_suffixes
    name, release = target.operating_system, Path("/etc/os-release")
    if sys.platform == "linux" and release.exists():
        assert name
        assert re.search(f'^PRETTY_NAME="?{re.escape(name)}"?$', release.read_text("utf-8"), re.M)
