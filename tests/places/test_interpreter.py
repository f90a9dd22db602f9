"""What an interpreter answers becomes facts, on systems that are not at hand too."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.tags import Tag

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import TargetSystem
from binary_checks.places.foreign_tags import describe_python
from binary_checks.places.running import TargetPython, identify, read_target, require_fit
from binary_checks.systems import target_for
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


# Which wheels another system takes is said without asking this one.


def describe(tags: str, **headers: str) -> Any:
    metadata = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    subject = wheel(f"demo-1.0-{tags}.whl", metadata=metadata)
    return describe_python(subject, target_for(subject.claims, frozenset()))


def test_a_linux_takes_its_own_wheels_first_and_those_of_newer_ones_last() -> None:
    python = describe("cp312-cp312-manylinux_2_17_x86_64")
    assert python.name == "cp312-manylinux_2_17_x86_64"
    platforms = python.platforms
    assert platforms[:3] == (
        "manylinux_2_17_x86_64",
        "manylinux2014_x86_64",
        "manylinux_2_16_x86_64",
    )
    assert platforms.index("manylinux1_x86_64") < platforms.index("manylinux_2_18_x86_64")
    assert platforms[-1] == "linux_x86_64"
    assert python.options()[:6] == (
        *("--implementation", "cp", "--python-version", "3.12", "--abi", "cp312"),
    )


@pytest.mark.parametrize(
    ("tags", "platforms"),
    [
        ("cp312-cp312-win_arm64", ("win_arm64",)),
        ("cp312-cp312-macosx_10_9_x86_64", ("macosx_10_9_x86_64", "macosx_99_0_x86_64")),
        ("cp312-cp312-macosx_14_0_arm64", ("macosx_14_0_arm64", "macosx_99_0_arm64")),
    ],
)
def test_other_systems_have_names_of_their_own(tags: str, platforms: tuple[str, ...]) -> None:
    assert describe(tags).platforms == platforms


def test_musl_has_its_own_family() -> None:
    assert describe("cp312-cp312-musllinux_1_2_aarch64").platforms[:2] == (
        "musllinux_1_2_aarch64",
        "musllinux_1_1_aarch64",
    )


@pytest.mark.parametrize(
    ("tags", "abi"),
    [
        ("cp314-cp314t-manylinux_2_28_x86_64", "cp314t"),
        ("cp39-abi3-manylinux_2_28_x86_64", "cp310"),
        ("cp39-cp39-manylinux_2_28_x86_64", "cp39"),
        ("cp311.cp312-abi3-win_amd64", "cp311"),
    ],
)
def test_the_oldest_python_that_is_allowed_is_asked_for(tags: str, abi: str) -> None:
    assert describe(tags, Requires_Python=">=3.10").abi == abi


def test_a_wheel_for_every_python_gets_the_one_that_runs() -> None:
    assert describe("py3-none-manylinux_2_28_x86_64").version == sys.version_info[:2]
    assert (
        describe("py3-none-win_amd64", Requires_Python="nonsense").version == sys.version_info[:2]
    )


def test_a_wheel_for_pypy_alone_is_not_fetched_for() -> None:
    subject = wheel("demo-1.0-pp310-pypy310_pp73-manylinux_2_17_x86_64.whl")
    with pytest.raises(
        Unavailable, match="its tags name no CPython for which to fetch requirements"
    ):
        describe_python(subject, TargetSystem(name="any"))
