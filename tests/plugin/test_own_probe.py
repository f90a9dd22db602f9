"""A project's own probe: a script, a fact, its gatherer, a table of the profile, and a check."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, list_sandbox_modes
from tests.plugin.conftest import Run

PAGE = (Path(__file__).parents[2] / "docs" / "profile.md").read_text(encoding="utf-8")
SCRIPT, CONFTEST = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[-2:]
PROFILE = """
[tool.binary_checks.probes.colour]
module = "demo.lamp"
[tool.binary_checks.options.wrong-colour]
allowed = ["green"]
"""


@pytest.fixture
def name(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    pytester.makeconftest(CONFTEST)
    (pytester.path / "ask_colour.py").write_text(SCRIPT)
    members = {"demo/__init__.py": "colour = 'red'\n", "demo/lamp.py": "colour = 'green'\n"}
    return build_wheel(pytester.path, tags=PURE, members=members).name


@pytest.mark.parametrize("sandbox", list_sandbox_modes())
def test_it_goes_through_a_whole_run(run: Run, name: str, sandbox: str) -> None:
    result = run(f"{name}::wrong-colour", "--binary-sandbox", sandbox, static=False)
    assert f"wrong-colour: {name}: it is red" in result.stdout.str()
    assert result.ret == 1


def test_its_table_says_what_it_is_asked(pytester: pytest.Pytester, run: Run, name: str) -> None:
    (pytester.path / "pyproject.toml").write_text(PROFILE)
    result = run(f"{name}::wrong-colour", static=False)
    result.assert_outcomes(passed=1)


def test_statically_it_does_not_run(run: Run, name: str) -> None:
    result = run(name)
    assert "wrong-colour" not in result.stdout.str()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("@gathers(ColourReport)\n", ""),
            "check wrong-colour: no function with @gathers(ColourReport) gathers it",
        ),
        (
            ("request: ColourRequest)", "lamp: Path)"),
            "<gatherer of ColourReport>: it requests <class 'pathlib.*Path'>, "
            "for which there is no gatherer",
        ),
        (
            ("request: ColourRequest)", "request)"),
            "gatherer of ColourReport: parameter 'request' has no type",
        ),
    ],
)
def test_one_that_is_not_whole_is_one_line(
    pytester: pytest.Pytester, run: Run, name: str, change: tuple[str, str], said: str
) -> None:
    assert change[0] in CONFTEST
    pytester.makeconftest(CONFTEST.replace(*change))
    result = run(name)
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: {said}".replace("<", "[<]")])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("ColourReport(python='', colour=reply.answer['color'])", "broke: KeyError: 'color'"),
        ("reply.answer", "gives {'colour': 'red'}"),
    ],
)
def test_one_that_breaks_is_an_error_and_no_problem_of_the_package(
    pytester: pytest.Pytester, run: Run, name: str, answer: str, said: str
) -> None:
    whole = 'ColourReport(python=place.target.name, colour=reply.answer["colour"])'
    assert whole in CONFTEST
    pytester.makeconftest(CONFTEST.replace(whole, answer))
    result = run(f"{name}::wrong-colour", static=False)
    result.assert_outcomes(errors=1)
    assert f"<gatherer of ColourReport> {said}" in result.stdout.str()
