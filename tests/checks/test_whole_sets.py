"""What is found of several packages together, and what may differ among them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from binary_checks.checks.release import (
    classifiers_differ_in_release,
    commits_differ_in_release,
    file_missing_from_release,
    file_unexpected_in_release,
    python_differs_in_release,
    requirements_differ_in_release,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import Finding, NotInspected, Problem, Release, ReleasePart
from fixtures.values import only


def part(
    platform: str, *, version: str = "1.0", name: str = "demo", **fields: object
) -> ReleasePart:
    file_name = f"{name}-{version}-cp311-cp311-{platform}.whl"
    known: dict[str, object] = {"has_metadata": True, **fields}
    return ReleasePart(file_name=file_name, name=name, version=version, **known)  # type: ignore[arg-type]


def release(*parts: ReleasePart, **fields: object) -> Release:
    return Release(parts=parts, **fields)  # type: ignore[arg-type]


def told(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    return [(each.path, each.sentence) for each in findings if isinstance(each, Problem)]


LINUX, WINDOWS = part("manylinux_2_28_x86_64"), part("win_amd64")


def test_each_file_that_is_lacking_and_each_too_many_is_named() -> None:
    found = release(LINUX, WINDOWS, expected=("demo-*-many*", "demo-*-mac*"), expected_by="set.txt")
    assert told(file_missing_from_release(found)) == [
        ("", "no file among the packages named matches demo-*-mac* of set.txt")
    ]
    assert told(file_unexpected_in_release(found)) == [
        (WINDOWS.file_name, "no line of set.txt matches it")
    ]
    whole = release(LINUX, WINDOWS, expected=("demo-*-many*", "demo-*-win_*"), expected_by="s")
    for check in (file_missing_from_release, file_unexpected_in_release):
        assert list(check(whole)) == []
        with pytest.raises(NotApplicable):
            list(check(release(LINUX, WINDOWS)))  # without a list


def test_what_the_index_has_counts_too() -> None:
    listed = ("demo-1.0-cp311-cp311-macosx_11_0_arm64.whl", LINUX.file_name)
    found = release(LINUX, listed=listed, expected=("*-many*", "*-mac*", "*-win*"), expected_by="s")
    assert told(file_missing_from_release(found)) == [
        ("", "no file named or in the index matches *-win* of s")
    ]
    assert told(file_unexpected_in_release(found)) == []


def test_where_the_index_did_not_answer_nothing_is_missing_for_certain() -> None:
    found = release(LINUX, unlisted="timed out", expected=("*-win*",), expected_by="s")
    gap = only(NotInspected, file_missing_from_release(found))
    assert gap.sentence.endswith("the index did not answer: timed out")


def test_other_requirements_name_both_files() -> None:
    linux = part("manylinux_2_28_x86_64", requires=("numpy", "nvidia-cublas==1"))
    windows = part("win_amd64", requires=("numpy>=2",))
    ((path, sentence),) = told(requirements_differ_in_release(release(linux, windows)))
    assert path == windows.file_name
    assert sentence == (
        f"requires numpy>=2 and does not require numpy, nvidia-cublas==1, unlike {linux.file_name}"
    )


def test_three_of_many_requirements_are_named() -> None:
    linux = part("manylinux_2_28_x86_64")
    few, many = (part("win_amd64", requires=tuple("abcd"[:count])) for count in (3, 4))
    assert [
        sentence.partition(", unlike")[0]
        for windows in (few, many)
        for _, sentence in told(requirements_differ_in_release(release(linux, windows)))
    ] == ["requires a, b, c", "requires a, b, c and 1 more"]


def test_requirements_that_may_differ_and_other_spellings_are_left_in_peace() -> None:
    linux = part("manylinux_2_28_x86_64", requires=("NumPy >=2,<3", "nvidia-cublas==1"))
    windows = part("win_amd64", requires=("numpy<3,>=2",))
    found = release(linux, windows)
    assert told(requirements_differ_in_release(found, allowed=("nvidia-*",))) == []


def test_other_versions_variants_and_projects_require_what_they_like() -> None:
    parts = (
        part("win_amd64", version="1.0+cpu", requires=("a",)),
        part("win_amd64", version="1.0+cu126", requires=("b",)),
        part("win_amd64", name="other", requires=("c",)),
    )
    with pytest.raises(NotApplicable):
        list(requirements_differ_in_release(release(*parts)))


@pytest.mark.parametrize(
    "check",
    [
        requirements_differ_in_release,
        commits_differ_in_release,
        python_differs_in_release,
        classifiers_differ_in_release,
    ],
)
def test_a_package_that_could_not_be_read_is_a_gap(check: Any) -> None:
    unread = ReleasePart(file_name="x.whl", gap="truncated")
    assert only(NotInspected, check(release(LINUX, unread))).path == "x.whl"


def commit(platform: str, digits: str, version: str = "1.0") -> ReleasePart:
    return part(platform, version=version, commits=(("demo/version.py", digits),))


def test_two_commits_behind_one_version_name_both_files() -> None:
    linux, windows = commit("manylinux_2_28_x86_64", "a" * 40), commit("win_amd64", "b" * 40)
    assert told(commits_differ_in_release(release(linux, windows))) == [
        (
            windows.file_name,
            "demo/version.py says commit bbbbbbbbbbbb, "
            f"but the same file of {linux.file_name} says aaaaaaaaaaaa",
        )
    ]


def test_one_commit_may_be_cut_short_and_other_versions_have_others() -> None:
    parts = (
        commit("win_amd64", "abcdef0123" * 4),
        commit("manylinux_2_28_x86_64", "ABCDEF0"),
        commit("win_amd64", "b" * 40, version="2.0"),
        LINUX,
    )
    assert told(commits_differ_in_release(release(*parts))) == []
    cpu, cuda = commit("win_amd64", "a" * 40, "1.0+cpu"), commit("win_amd64", "b" * 40, "1.0+cu126")
    assert len(told(commits_differ_in_release(release(cpu, cuda)))) == 1
    with pytest.raises(NotApplicable):
        list(commits_differ_in_release(release(LINUX, WINDOWS)))  # which say no commit


def test_wheels_of_one_version_require_the_same_python() -> None:
    one = part("manylinux_2_28_x86_64", requires_python=">=3.10,<4")
    same = part("win_amd64", requires_python="<4, >=3.10")
    other, none = part("win32", requires_python=">=3.9"), part("win_arm64")
    assert told(python_differs_in_release(release(one, same))) == []
    assert told(python_differs_in_release(release(one, other, none))) == [
        (other.file_name, f"requires Python >=3.9, unlike {one.file_name}: <4,>=3.10"),
        (none.file_name, f"requires Python of any version, unlike {one.file_name}: <4,>=3.10"),
    ]
    apart = part("win32", version="1.0+cpu", requires_python=">=3.9")
    with pytest.raises(NotApplicable):
        list(python_differs_in_release(release(one, apart)))


def test_wheels_of_one_version_have_the_same_classifiers() -> None:
    one = part("manylinux_2_28_x86_64", classifiers=("A", "B"))
    other = part("win32", classifiers=("B", "C"))
    assert told(classifiers_differ_in_release(release(one, other))) == [
        (other.file_name, f"has the classifier C and lacks A, unlike {one.file_name}")
    ]
    same = part("win32", classifiers=("B", "A", "A"))
    assert told(classifiers_differ_in_release(release(one, same))) == []
