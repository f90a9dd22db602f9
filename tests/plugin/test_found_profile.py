"""Of a profile that the command found in the current folder nothing runs; pytest keeps its ways."""

from __future__ import annotations

import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from binary_checks.declaring import find_checks
from binary_checks.errors import ProfileError
from binary_checks.model import REQUESTS, GpuRequest, Request, SnippetRequest
from binary_checks.profile import (
    Profile,
    find_profile,
    find_requests,
    leave_out_code,
    list_code,
    load_profile,
    validate,
)
from tests.plugin.conftest import command, healthy

NAME = "demo-1.0-py3-none-any.whl"
HARMLESS = {
    *(
        "allowed",
        "bfloat16",
        "expected",
        "float16",
        "float32",
        "float64",
        "must_import",
        "newer",
        "only",
    ),
    *("prints", "seconds"),
}
"""Options of checks that run the package: by none does anything run, they judge what came out."""
HARMLESS_KEYS = {
    "gpu": {"leave_out", "steps", "thorough"},
    "device_code": {"thorough"},
    "ptx": {"bytes", "targets"},
    "builds": {"cuda", "rocm", "labels"},
    "snippets": {"only", "thorough"},
    "release": {"commits"},
    "consumer": {"programs", "standard"},
}
"""Of tables of probes: they choose among what is there, or say what to look for."""
OWN_CHECK = """
from binary_checks import check
from binary_checks.model import Wheel
with open({mark!r}, "a") as mark:
    mark.write("checks ")
@check
def wrong_colour(wheel: Wheel):
    "The package has the wrong colour."
    yield "it is blue"
"""
PROFILE = """
[tool.binary_checks]
checks = ["own.py"]
network = true
{extends}
[tool.binary_checks.probes.snippets.code]
own = "open({mark!r}, 'a').write('snippet ')"
[tool.binary_checks.probes.cuda]
module = "demo"
snippet = "open({mark!r}, 'a').write('cuda ')"
[tool.binary_checks.options.wheel-too-large]
limit = 1
[tool.binary_checks.options.wrong-colour]
[[tool.binary_checks.known_problems]]
check = "wheel-too-large"
reason = "issue 1"
[[tool.binary_checks.known_problems]]
check = "wrong-colour"
reason = "issue 2"
"""


def test_from_a_folder_below_nothing_of_it_runs_either(folder: Path, mark: Path) -> None:
    (folder / "dist").mkdir()
    (folder / NAME).rename(folder / "dist" / NAME)
    result = run(folder / "dist", "--binary-static", "-v")
    assert (result.returncode, mark.exists()) == (0, False), result.stdout + result.stderr
    assert "../pyproject.toml was found automatically" in result.stdout
    assert "give --profile ../pyproject.toml to use all of it" in result.stdout
    assert "profile ../pyproject.toml" in result.stdout


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


@pytest.fixture
def folder(tmp_path: Path, mark: Path) -> Path:
    """A folder with a package, and a profile that would run a lot."""
    members = {"demo/__init__.py": "value = 1\n"}
    folder = healthy(tmp_path / "here", tags=("py3-none-any",), members=members).parent
    (folder / "own.py").write_text(OWN_CHECK.format(mark=str(mark)))
    (folder / "pyproject.toml").write_text(PROFILE.format(mark=str(mark), extends=""))
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command(folder, NAME, *arguments, PIP_NO_INDEX="1")


@pytest.mark.parametrize(
    "options", [["--binary-sandbox=off"], ["--binary-static"], ["--binary-static", "-n", "1", "-d"]]
)
def test_nothing_of_it_runs_and_one_line_says_so(
    folder: Path, mark: Path, options: list[str]
) -> None:
    (folder / "pytest.ini").write_text("[pytest]\nbinary_command = false\n")  # it has no say
    result = run(folder, *options)
    assert (result.returncode, mark.exists()) == (0, False), result.stdout + result.stderr
    lines = result.stdout.splitlines()
    (line,) = (each for each in lines if "was found automatically and" in each)
    code = ["snippets.code", "cuda.module", "cuda.snippet"]
    listed = ", ".join(["own.py", "network", *(f"probes.{each}" for each in code)])
    assert line == (
        f"pyproject.toml was found automatically and is used without {listed}: "
        "give --profile pyproject.toml to use all of it"
    )


def test_known_problems_that_it_accepts_are_announced(folder: Path) -> None:
    """They hold, for the package is larger than one byte; of a check left out there is none."""
    result = run(folder, "--binary-static")
    said = "was found automatically, accepts known problems: wheel-too-large (1)"
    assert f"pyproject.toml, which {said}" in result.stdout.splitlines()
    assert "\naccepted: wheel-too-large: " in result.stdout


def test_named_it_runs(folder: Path, mark: Path) -> None:
    asked = ("--binary-profile", "pyproject.toml", "--binary-sandbox=off", "-k", "snippet")
    result = run(folder, *asked)
    assert mark.read_text().split()[0] == "checks"
    assert "snippet" in mark.read_text()
    assert "was found automatically" not in result.stdout


def test_pytest_runs_it_as_it_runs_a_conftest(
    folder: Path, mark: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = pytester.runpytest_inprocess("--binary-static", NAME, "-k", "absolute-search-path")
    assert mark.read_text() == "checks "
    assert "was found automatically" not in result.stdout.str()


def test_what_a_shipped_profile_runs_stays(folder: Path, mark: Path) -> None:
    text = PROFILE.format(mark=str(mark), extends='extends = "cupy"')
    (folder / "pyproject.toml").write_text(text)
    result = run(folder, "--collect-only", "-q")
    assert result.returncode == 0, result.stdout + result.stderr
    assert not mark.exists()


def test_a_name_that_no_check_has_is_still_a_mistake(folder: Path) -> None:
    text = '[tool.binary_checks]\nenable = ["no-such-check"]\n'
    (folder / "pyproject.toml").write_text(text)
    assert run(folder, "--binary-static").returncode == 4


def test_no_option_of_a_check_runs_anything() -> None:
    runtime = [check for check in find_checks([]) if check.runs_package]
    assert {name for check in runtime for name in check.options} == HARMLESS


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.table)
def test_every_key_of_a_probe_runs_but_those_that_choose(kind: type[Request]) -> None:
    keys = {field.name for field in fields(kind)}
    harmless = HARMLESS_KEYS.get(kind.table, set())
    assert list_code(kind.table, find_requests([])) == keys - harmless


def read_found(folder: Path, text: str) -> Profile:
    (folder / "pyproject.toml").write_text(text)
    return validate(leave_out_code(find_profile(folder), find_checks()), find_checks())


def test_of_a_shipped_probe_only_the_shipped_code_stays(tmp_path: Path) -> None:
    text = """
    [tool.binary_checks]
    extends = "torch"
    [tool.binary_checks.probes.gpu]
    leave_out = ["magma"]
    module = "mine"
    [tool.binary_checks.probes.snippets.code]
    mine = "print()"
    """
    found, shipped = read_found(tmp_path, text), validate(load_profile("torch"), find_checks())
    assert found.requests[SnippetRequest] == shipped.requests[SnippetRequest]
    gpu = found.requests[GpuRequest]
    assert isinstance(gpu, GpuRequest)
    assert (gpu.module, gpu.leave_out) == ("torch", ("magma",))
    assert found.left_out == ("probes.gpu.module", "probes.snippets.code")


def test_a_probe_of_the_profiles_own_goes_with_its_checks(tmp_path: Path) -> None:
    text = "[tool.binary_checks]\n{}[tool.binary_checks.probes.colour]\nlamp = 'red'\n"
    found = read_found(tmp_path, text.format('checks = ["own.py"]\n'))
    assert (found.probes, found.left_out) == ({}, ("own.py", "probes.colour.lamp"))
    with pytest.raises(ProfileError, match="unknown probe 'colour'"):
        read_found(tmp_path, text.format(""))
