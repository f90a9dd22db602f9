"""Requirements that installers refuse or misread, and a Requires-Python that excludes the tags."""

from __future__ import annotations

import pytest

from binary_checks.checks.metadata import (
    excluded_version_given,
    invalid_requirement,
    python_is_excluded,
    requirement_by_url,
    requirement_without_wheel,
)
from binary_checks.model import (
    GivenVersions,
    Level,
    MisfitVersion,
    NotInspected,
    Problem,
    RequiredWheels,
    Wheel,
)
from fixtures.values import only, wheel

METADATA = "demo-1.0.dist-info/METADATA"
CP311 = "cp311-cp311-manylinux_2_17_x86_64"


def with_headers(*headers: tuple[str, str], tags: str = CP311) -> Wheel:
    usual = (("Metadata-Version", "2.1"), ("Name", "demo"), ("Version", "1.0"))
    return wheel(f"demo-1.0-{tags}.whl", metadata=(*usual, *headers))


@pytest.mark.parametrize(
    "text", ["foo>=1.0.*", "foo; python_versions > '3'", "foo bar", "foo>=", "(((" * 9999]
)
def test_a_requirement_that_no_installer_understands_is_a_problem(text: str) -> None:
    problem = only(Problem, invalid_requirement(with_headers(("Requires-Dist", text))))
    assert problem.path == METADATA
    assert problem.sentence.startswith("Requires-Dist ")
    assert problem.sentence.endswith("is not valid")
    assert len(problem.sentence) < 300


@pytest.mark.parametrize(
    ("tags", "text", "level"),
    [
        ("cp37-cp37m-win_amd64", "dask (<2022.02.0,>=2021.*)", Level.WARNING),
        ("cp27-cp27m-win_amd64", "foo~=1.0.*; extra == 'ci'", Level.WARNING),
        ("cp37-cp37m-win_amd64", "foo; python_versions > '3'", Level.ERROR),
        ("cp37-abi3-win_amd64", "foo>=1.0.*", Level.ERROR),
        ("cp38-cp38-win_amd64", "foo>=1.0.*", Level.ERROR),
        ("py3-none-any", "foo>=1.0.*", Level.ERROR),
    ],
)
def test_the_newest_pip_of_old_pythons_reads_wildcards(tags: str, text: str, level: Level) -> None:
    problem = only(Problem, invalid_requirement(with_headers(("Requires-Dist", text), tags=tags)))
    assert problem.level is level


@pytest.mark.parametrize(
    "text", ["foo", "foo (>=1.0)", "foo[bar]>=1,<2; python_version < '3.9'", "foo @ https://a/b"]
)
def test_a_valid_requirement_is_none(text: str) -> None:
    headers = (("Requires-Dist", text), ("Requires-Python", ">=3.8, !=3.9.*"))
    assert list(invalid_requirement(with_headers(*headers))) == []
    assert list(invalid_requirement(with_headers())) == []


def test_a_requirement_by_url_is_a_warning() -> None:
    package = with_headers(("Requires-Dist", "foo @ https://example.org/foo.whl"))
    problem = only(Problem, requirement_by_url(package))
    assert problem.sentence.startswith("requires foo by the address https://example.org/foo.whl")
    assert requirement_by_url.level is Level.WARNING
    assert list(requirement_by_url(with_headers(("Requires-Dist", "foo>=1")))) == []


@pytest.mark.parametrize(
    ("wanted", "tags"),
    [
        ("<3.11", CP311),
        (">=3.12", CP311),
        (">=3.8,!=3.11.*", CP311),
        ("<3.8", "cp38-abi3-win_amd64"),
        (">=3", "py2-none-any"),
        ("<3", "py3-none-any"),
        ("<3.10", "py310-none-any"),
        (">=3.12", "cp310.cp311-none-any"),
    ],
)
def test_nobody_can_install_a_wheel_whose_tags_requires_python_excludes(
    wanted: str, tags: str
) -> None:
    package = with_headers(("Requires-Python", wanted), tags=tags)
    problem = only(Problem, python_is_excluded(package))
    assert problem.level is Level.ERROR
    assert problem.sentence.startswith(f"Requires-Python {wanted!r} excludes every Python of ")
    assert problem.sentence.endswith("nobody can install this wheel")
    some = with_headers(("Requires-Python", ">=3.10"), tags="cp39.cp310-none-any")
    problem = only(Problem, python_is_excluded(some))
    assert problem.level is Level.WARNING
    assert "excludes every Python of cp39-none: no installer offers the wheel" in problem.sentence


@pytest.mark.parametrize(
    ("wanted", "tags"),
    [
        (">=3.11", CP311),
        (">=3.11.4,<3.11.9", CP311),
        ("", CP311),
        (">=3.10", "cp38-abi3-win_amd64"),
        (">=3.7", "py2.py3-none-any"),
        (">=3.14", "py3-none-any"),
        (">=3.12", "py310-none-any"),
        (">=3.x", CP311),
        (">=3.11", "pp311-pypy311_pp73-win_amd64"),
    ],
)
def test_tags_that_requires_python_leaves_a_python_to(wanted: str, tags: str) -> None:
    assert list(python_is_excluded(with_headers(("Requires-Python", wanted), tags=tags))) == []


def test_a_requires_python_that_is_none_is_a_problem_and_an_endless_one_not_followed() -> None:
    assert list(invalid_requirement(with_headers(("Requires-Python", ">=3.x")))) == [
        Problem(path=METADATA, sentence="Requires-Python '>=3.x' is not valid")
    ]
    endless = with_headers(("Requires-Python", ">=3," * 9999))
    assert list(python_is_excluded(endless)) == [
        NotInspected(sentence="Requires-Python has 39996 characters")
    ]


def test_a_requirement_of_which_the_index_has_no_wheel() -> None:
    lacking = RequiredWheels(lacking="wheel of torch>=2 for cp311 on win_amd64 or newer")
    assert list(requirement_without_wheel(wheel(), lacking)) == [
        Problem(
            path=METADATA,
            sentence="requires a distribution that cannot be installed: "
            "the index has no wheel of torch>=2 for "
            "cp311 on win_amd64 or newer",
        )
    ]
    assert list(requirement_without_wheel(wheel(), RequiredWheels(found=3))) == []


def test_a_given_version_that_a_requirement_excludes_is_told_with_both() -> None:
    misfits = (
        MisfitVersion(name="numpy", version="1.26", requirement="numpy>=2"),
        MisfitVersion(name="nvidia-cublas", version="13.1", requirement="nvidia-cublas==13.4.*",
                      by="cuda-toolkit 13.2.2"),
    )  # fmt: skip
    assert list(excluded_version_given(GivenVersions(misfits=misfits))) == [
        Problem(
            sentence="requires numpy>=2, but numpy 1.26 was given: "
            "no installer installs the two together"
        ),
        Problem(
            sentence="cuda-toolkit 13.2.2, which it requires, requires nvidia-cublas==13.4.*, but "
            "nvidia-cublas 13.1 was given: no installer installs the two together"
        ),
    ]
    assert list(excluded_version_given(GivenVersions())) == []
