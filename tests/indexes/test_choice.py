"""The wheel that is chosen is the one that pip chooses; where there is none, one line says why."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from packaging.requirements import Requirement

from binary_checks.errors import ProfileError
from binary_checks.indexes.choice import WheelRequest, choose
from binary_checks.indexes.simple_page import ListedFile
from binary_checks.places.foreign_tags import read_target_name


def listed(*names: str, **said: object) -> list[ListedFile]:
    return [
        ListedFile(file_name=name, url=f"https://i/{name}", **said)  # type: ignore[arg-type]
        for name in names
    ]


def pick(
    files: Sequence[ListedFile],
    requirement: str = "demo",
    target: str = "cp312-manylinux_2_28_x86_64",
    prereleases: bool = False,
) -> str:
    wanted, there = Requirement(requirement), read_target_name(target)
    wish = WheelRequest(
        asked=requirement,
        project=wanted.name,
        specifier=wanted.specifier,
        tags=there.tags,
        python="{}.{}.0".format(*there.version),
        label=f"{there.abi} on {there.platforms[0]}",
        prereleases=prereleases,
    )
    return choose(files, wish, "https://i").file_name


def refusal(files: Sequence[ListedFile], requirement: str = "demo", **more: str) -> str:
    with pytest.raises(ProfileError) as caught:
        pick(files, requirement, **more)
    return str(caught.value)


def name(version: str, tag: str = "py3-none-any", build: str = "") -> str:
    return f"demo-{version}-{build + '-' if build else ''}{tag}.whl"


def linux(minor: int, python: str = "cp312-cp312") -> str:
    return name("1.0", f"{python}-manylinux_2_{minor}_x86_64")


@pytest.mark.parametrize(
    ("names", "requirement", "chosen"),
    [
        ([name("1.0"), name("1.10"), name("1.9")], "demo", name("1.10")),
        ([name("1.0"), name("2.0rc1")], "demo", name("1.0")),
        ([name("2.0rc1")], "demo", name("2.0rc1")),
        ([name("1.0"), name("2.0rc1")], "demo>=2.0rc1", name("2.0rc1")),
        ([name("1.0"), name("1.0+cpu")], "demo==1.0", name("1.0+cpu")),
        ([name("1.0"), name("1.0", build="2")], "demo", name("1.0", build="2")),
        ([name("1.0", build="10"), name("1.0", build="9a")], "demo", name("1.0", build="10")),
        ([name("1.0"), linux(17)], "demo", linux(17)),
        ([linux(17), linux(28), linux(34)], "demo", linux(28)),
        ([linux(17, "cp39-abi3"), name("1.0", "cp312-none-any")], "demo", linux(17, "cp39-abi3")),
    ],
)
def test_the_best_one_is_chosen(names: list[str], requirement: str, chosen: str) -> None:
    assert pick(listed(*names), requirement) == chosen
    assert pick(listed(*reversed(names)), requirement) == chosen


def test_prereleases_are_a_setting() -> None:
    files = listed(name("1.0"), name("2.0rc1"))
    assert pick(files, prereleases=True) == name("2.0rc1")


def test_requires_python_decides() -> None:
    files = [*listed(name("1.0")), *listed(name("2.0"), requires_python=">=3.13")]
    assert pick(files) == name("1.0")
    assert pick(files, target="cp313-win_amd64") == name("2.0")
    odd = listed(name("3.0"), requires_python="nonsense")
    assert pick([*files, *odd]) == name("3.0")


def test_a_yanked_one_is_taken_by_its_version_alone() -> None:
    files = [*listed(name("1.0")), *listed(name("2.0"), yanked="broken")]
    assert pick(files) == name("1.0")
    assert pick(files, "demo==2.0") == name("2.0")
    assert "the matching version was yanked (broken)" in refusal(files, "demo>=2")
    assert "the matching version was yanked (broken)" in refusal(files, "demo==2.*")


@pytest.mark.parametrize(
    ("target", "tag"),
    [
        ("cp312-win_amd64", "cp312-cp312-win_amd64"),
        ("cp313t-win_arm64", "cp313-cp313t-win_arm64"),
        ("312-win32", "cp312-cp312-win32"),
        ("3.12-macosx_14_0_arm64", "cp312-cp312-macosx_11_0_arm64"),
        ("cp311-macosx_10_13_x86_64", "cp311-cp311-macosx_10_9_universal2"),
        ("cp311-manylinux2014_aarch64", "cp311-cp311-manylinux_2_17_aarch64"),
        ("cp311-musllinux_1_2_x86_64", "cp311-cp311-musllinux_1_1_x86_64"),
    ],
)
def test_targets_are_named_by_a_python_and_a_platform(target: str, tag: str) -> None:
    others = [name("1.0", "cp310-cp310-win_amd64"), name("1.0", "cp312-cp312-linux_s390x")]
    assert pick(listed(*others, name("1.0", tag)), target=target) == name("1.0", tag)


@pytest.mark.parametrize("target", ["win_amd64", "cp312", "cp312-amiga", "py3-any", "cp27-win32"])
def test_what_is_no_target_is_refused(target: str) -> None:
    with pytest.raises(ProfileError, match=f"{target}: not a target; name a Python and a platform"):
        read_target_name(target)


@pytest.mark.parametrize(
    ("files", "requirement", "said"),
    [
        ([], "demo==1", "demo==1: no such project (asked: https://i)"),
        (listed("other-1.0-py3-none-any.whl"), "demo==1", "no such project"),
        (
            listed(name("1.0"), name("2.0")),
            "demo==3",
            "no such version; the available ones are 2.0, 1.0",
        ),
        (
            listed(name("1.0", "cp312-cp312-win_amd64")),
            "demo",
            "no wheel for cp312 on manylinux_2_28_x86_64; 1.0 has cp312-cp312-win_amd64",
        ),
        (
            listed(name("1.0"), requires_python=">=3.14"),
            "demo",
            "no wheel for cp312 on manylinux_2_28_x86_64; 1.0 requires Python >=3.14",
        ),
        (
            listed("demo-1.0.tar.gz"),
            "demo==1.0",
            "there is only a source distribution (demo-1.0.tar.gz): build a wheel from it",
        ),
    ],
)
def test_where_there_is_none_one_line_says_what_there_is(
    files: list[ListedFile], requirement: str, said: str
) -> None:
    assert said in refusal(files, requirement)
