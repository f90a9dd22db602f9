"""Snippets run beside the installed package, each in a process of its own, whatever they do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import GatherError
from binary_checks.model import Code, Ending, ProbeAnswer, SnippetRequest, SnippetRun
from binary_checks.probes.run_snippet.reader import name_system, read_run, run_snippets
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, FilledPlace, install_fresh, open_offline, read_wheel, within

SNIPPETS = {
    "good": "import demo\nprint(demo.blas)\n",
    "wrong": "import demo\n\nassert demo.blas == 'openblas'",
    "deep": "import demo\ndemo.fail()",
    "unsound": "x = 1\nif x\n",
    "exits_well": "import sys\nsys.exit(0)",
    "exits": "import sys\nsys.exit(4)",
    "cannot_look": "try:\n    unavailable('no  compiler')\nexcept Exception:\n    pass",
    "crashes": "import os\nprint('x')\nos.abort()",
    "dies_later": "import atexit, os\natexit.register(os._exit, 5)\nprint('done')",
    "leaves_quietly": "import os\nos._exit(0)",
    "hangs": "import time\ntime.sleep(600)",
    "is_main": "import inspect\ndef f(): pass\nprint(__name__, inspect.getsource(f))",
    "taken_away": "",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("snippets")


@pytest.fixture(scope="module")
def path(folder: Path) -> Path:
    module = "blas = 'mkl'\ndef fail():\n    raise ValueError(blas)\n"
    return build_wheel(folder, tags=PURE, members={"demo/__init__.py": module})


@pytest.fixture(scope="module")
def environment(path: Path) -> Iterator[FilledPlace]:
    with open_offline(path) as opened:
        yield opened


def request(*names: str, **keys: Any) -> SnippetRequest:
    return SnippetRequest(code={name: Code(SNIPPETS[name]) for name in names}, **keys)


def run(environment: FilledPlace, *names: str, timeout: float = 60) -> dict[str, SnippetRun]:
    report = run_snippets(within(environment, timeout), environment.wheel, request(*names))
    return {item.step.name: item for item in report.runs}


def test_a_snippet_prints_and_ends(environment: FilledPlace) -> None:
    bad = run(environment, "dies_later", "unsound")
    done = run(environment, "good", "exits_well", "is_main", "cannot_look")
    assert {item.step.outcome for item in done.values()} == {Ending.OK}
    assert done["good"].printed == "mkl"
    assert done["is_main"].printed == "__main__ def f(): pass"
    assert done["cannot_look"].unavailable == "no compiler"  # no handler of its own hides it
    assert (bad["dies_later"].printed, bad["dies_later"].step.finished) == ("done", True)
    assert bad["dies_later"].step.detail == "exit status 5"
    assert bad["unsound"].step.outcome is Ending.RAISED
    assert bad["unsound"].step.detail.startswith("SyntaxError: ")
    assert bad["unsound"].step.detail.endswith("at line 2: if x")


@pytest.mark.parametrize(
    ("name", "outcome", "detail"),
    [
        (
            "wrong",
            Ending.RAISED,
            "AssertionError at line 3: assert demo.blas == 'openblas'",
        ),
        (
            "deep",
            Ending.RAISED,
            "ValueError: mkl (demo/__init__.py:3) at line 2: demo.fail()",
        ),
        ("exits", Ending.EXITED, "SystemExit(4) at line 2: sys.exit(4)"),
        ("leaves_quietly", Ending.EXITED, "exit status 0"),
    ],
)
def test_a_bad_end_is_told_with_its_line(
    environment: FilledPlace, name: str, outcome: Ending, detail: str
) -> None:
    step = run(environment, name)[name].step
    assert (step.outcome, step.detail, step.finished) == (outcome, detail, False)


@pytest.mark.skipif(os.name != "posix", reason="abort() has no signal's name elsewhere")
def test_a_crash_and_a_hang_take_only_their_own_process(environment: FilledPlace) -> None:
    done = run(environment, "crashes", "hangs", "good", timeout=2.0)
    assert done["crashes"].step.detail == "SIGABRT"
    assert done["hangs"].step.outcome is Ending.HUNG
    assert done["good"].step.outcome is Ending.OK


@pytest.mark.parametrize(
    ("only", "runs"),
    [({}, True), ({"good": ("*",)}, True), ({"good": ()}, False), ({"good": ("vms-*",)}, False)],
)
def test_a_snippet_runs_where_it_is_for(
    environment: FilledPlace, only: Mapping[str, tuple[str, ...]], runs: bool
) -> None:
    asked = request("good", "taken_away", only=only)  # one without code is none
    report = run_snippets(environment, environment.wheel, asked)
    assert bool(report.runs) is runs
    assert report.elsewhere == (() if runs else ("good",))


@pytest.mark.parametrize(
    ("platform", "architecture", "name"),
    [
        ("linux-x86_64", "x86_64", "linux-x86_64"),
        ("macosx-14.0-arm64", "aarch64", "macos-aarch64"),
        ("win-amd64", "x86_64", "windows-x86_64"),
        ("win32", "i686", "windows-i686"),
    ],
)
def test_systems_have_one_spelling(
    environment: FilledPlace, platform: str, architecture: str, name: str
) -> None:
    target = replace(environment.target, platform=platform, architecture=architecture)
    assert name_system(target) == name


def test_a_probe_that_says_nothing_is_our_fault(environment: FilledPlace) -> None:
    silent = ProbeAnswer(outcome=Ending.EXITED, detail="exit status 1", stderr="bad\nlast words\n")
    with pytest.raises(GatherError, match="without an answer: last words"):
        read_run("good", silent, environment)


@pytest.fixture
def other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Code:
    """Another distribution, as a requirement."""
    wheel = build_wheel(folder, name="other", tags=PURE, members={"other.py": "name = 'other'\n"})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    return Code(f"other @ {wheel.as_uri()}")


def test_what_snippets_require_stays_out_of_the_packages_environment(
    path: Path, other: Code
) -> None:
    code = "import other, demo\nprint(other.name, demo.blas)"
    without = SnippetRequest(code={"with": Code(code)})
    beside = replace(without, requires=(other,))
    with install_fresh(read_wheel(path)) as place:
        (alone,) = run_snippets(place, place.wheel, without).runs
        (together,) = run_snippets(place, place.wheel, beside).runs
        (after,) = run_snippets(place, place.wheel, without).runs
    assert together.printed == "other mkl"
    assert alone.step.detail == after.step.detail
    assert "No module named 'other'" in after.step.detail


def test_a_thorough_run_runs_the_long_snippets_too(environment: FilledPlace) -> None:
    asked = request("good", "is_main", long={"is_main": ()})
    short = run_snippets(environment, environment.wheel, asked)
    assert ([run.step.name for run in short.runs], short.long) == (["good"], ("is_main",))
    all_of_them = run_snippets(environment, environment.wheel, replace(asked, thorough=True))
    assert [run.step.name for run in all_of_them.runs] == ["good", "is_main"]
    assert (all_of_them.long, all_of_them.untried) == ((), ())


def test_only_a_long_snippet_has_its_own_requirements(path: Path, other: Code) -> None:
    asked = SnippetRequest(
        code={"plain": Code("import other"), "beside": Code("import other, demo")},
        long={"beside": (other,)},
        thorough=True,
    )
    lacking = replace(asked, long={"beside": (Code("nobody-has-this"),)})
    with install_fresh(read_wheel(path)) as place:
        plain, beside = run_snippets(place, place.wheel, asked).runs
        report = run_snippets(place, place.wheel, lacking)
    assert plain.step.detail.startswith("ModuleNotFoundError: No module named 'other'")
    assert beside.step.outcome is Ending.OK
    assert [run.step.name for run in report.runs] == ["plain"]
    ((name, reason),) = report.untried
    assert name == "beside"
    assert reason.startswith("nobody-has-this cannot be installed alongside the package: ")
