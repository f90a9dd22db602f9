"""What an interpreter answers becomes facts, on systems that are not at hand too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from packaging.tags import Tag

from binary_checks.environments.target import TargetPython, identify, read_target, require_fit
from binary_checks.errors import GatherError, Unavailable
from fixtures.environments import PYTHON
from fixtures.values import wheel

MACOS = {
    "implementation": "CPython",
    "version": "3.13.1",
    "free_threaded": True,
    "platform": "macosx-11.0-arm64",
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
    "extension_suffixes": [".cp313-win_amd64.pyd", ".pyd"],
    "tags": ["cp313-cp313-win_amd64"],
}
MUSL = {**MACOS, "free_threaded": False, "tags": ["cp313-cp313-musllinux_1_2_x86_64"]}


def test_a_free_threaded_interpreter_on_macos_is_read() -> None:
    target = read_target(Path("python"), MACOS)
    assert target.name == "CPython 3.13.1 free-threaded"
    assert Tag("cp313", "cp313t", "macosx_11_0_arm64") in target.tags
    assert target.site_packages == Path("/e/lib/python3.13t/site-packages")


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
        with pytest.raises(Unavailable, match=rf"^{tag} wheel, interpreter is CPython 3\.13\.1"):
            require_fit(package, target)


def test_what_fits_not_is_said_with_the_platform() -> None:
    target = replace(read_target(Path("python"), WINDOWS), libc="glibc 2.36")
    package = wheel("demo-1.0-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl")
    sentence = (
        r"cp312-cp312-manylinux2014_x86_64 \(and 1 more\) wheel, "
        r"interpreter is CPython 3\.13\.1 on win_amd64 with glibc 2\.36"
    )
    with pytest.raises(Unavailable, match=sentence):
        require_fit(package, target)


@pytest.mark.parametrize("missing", ["version", "paths", "tags", "platform"])
def test_an_answer_that_lacks_something_is_not_the_packages_fault(missing: str) -> None:
    answer = {key: value for key, value in MACOS.items() if key != missing}
    with pytest.raises(GatherError, match=f"does not say its {missing}"):
        read_target(Path("python"), answer)


def test_an_interpreter_too_old_for_packaging_has_tags_all_the_same() -> None:
    target = read_target(Path("python"), {**MACOS, "version": "3.8.18", "tags": None})
    assert Tag("py3", "none", "any") in target.tags
    assert {tag.abi for tag in target.tags if tag.interpreter == "cp38"} >= {"cp38", "abi3"}


def test_the_running_interpreter_says_who_it_is() -> None:
    target = identify(PYTHON, timeout=60)
    assert isinstance(target, TargetPython)
    assert Tag("py3", "none", "any") in target.tags
    assert target.extension_suffixes
