"""What variables of CI systems say of a package counts under CI, and where it is asked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import binary_checks.plugin.collection  # noqa: F401 - else pytester forgets it, and loads it anew
from binary_checks.plugin.session import ReadConfiguration, read_configuration
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE
from tests.plugin.conftest import NAME, Run, healthy

CI = ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "CIRCLECI", "TF_BUILD", "JENKINS_URL", "BUILDKITE")


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CI:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DESIRED_PYTHON", "3.10")


def read(*asked: str) -> ReadConfiguration:
    option = SimpleNamespace(binary_configuration=[*asked])
    config: Any = SimpleNamespace(option=option, invocation_params=SimpleNamespace(dir=Path()))
    return read_configuration(config, [NAME])


def test_under_ci_they_are_read_and_the_run_fails(
    monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester, run: Run
) -> None:
    healthy(pytester.path)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("DESIRED_CUDA", "banana")
    result = run(f"{NAME}::configuration-contradiction")
    result.assert_outcomes(failed=1)
    output = result.stdout.str()
    assert "configuration: read from the environment: DESIRED_PYTHON=3.10 (" in output
    assert "configuration: not understood, and ignored: DESIRED_CUDA=banana" in output
    assert "DESIRED_PYTHON=3.10 says 3.10" in output


def test_a_python_that_is_not_understood_is_refused(
    monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester, run: Run
) -> None:
    healthy(pytester.path)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("DESIRED_PYTHON", "banana")
    result = run(f"{NAME}::configuration-contradiction")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "DESIRED_PYTHON=banana: not understood; write it like 3.11" in result.stderr.str()


def test_a_release_is_looked_up_in_its_matrix(
    monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester, run: Run
) -> None:
    healthy(pytester.path)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("DESIRED_PYTHON", "")
    monkeypatch.setenv("RELEASE_VERSION", "2.0")
    asked = f"{NAME}::configuration-contradiction"
    lines = run(asked).stdout.str()
    assert "ignored: RELEASE_VERSION=2.0 (there is no release_matrix.json)" in lines
    matrix = pytester.path / "release_matrix.json"
    matrix.write_text('{"2.0": {"demo": "2.0"}}')
    result = run(asked)
    result.assert_outcomes(failed=1)
    assert "the version 1.0 says 1.0, but RELEASE_VERSION=2.0 says 2.0" in result.stdout.str()
    matrix.write_text("{")
    result = run(asked)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "RELEASE_VERSION: release_matrix.json: not JSON: " in result.stderr.str()


@pytest.mark.parametrize(
    ("ci", "asked", "are_read"),
    [
        ("", [], False),
        ("false", [], False),
        ("", ["variables"], True),
        ("true", ["auto"], True),
        ("true", ["off"], False),
    ],
)
def test_variables_are_read_under_ci_or_if_asked_for(
    monkeypatch: pytest.MonkeyPatch, ci: str, asked: list[str], are_read: bool
) -> None:
    monkeypatch.setenv("CI", ci)
    found = read(*asked)
    assert found.variables == (("DESIRED_PYTHON=3.10",) if are_read else ())
    assert bool(found.stated.claims) == bool([*found.describe()]) == are_read


def test_what_is_given_counts_without_them() -> None:
    (claim,) = read("python=3.12").stated.claims
    assert (claim.aspect, claim.claim.value) == ("python", "3.12")


def test_a_built_wheel_that_lost_cuda_fails_and_a_pure_one_beside_it_gets_a_note(
    monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester, run: Run
) -> None:
    healthy(pytester.path)
    pure = build_wheel(pytester.path, name="helper", tags=PURE, members={"helper.py": ""})
    (pytester.path / "own.toml").write_text('[probes.cuda]\nmodule = "demo"\n')
    asked = [f"{name}::configuration-contradiction" for name in (NAME, pure.name)]
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("DESIRED_PYTHON", "3.11")
    monkeypatch.setenv("DESIRED_CUDA", "cu126")
    result = run("--binary-profile", "own.toml", *asked)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            f"configuration-contradiction: {NAME}: the accelerator: no object contains device code "
            "or needs a library of an accelerator (cpu), but DESIRED_CUDA=cu126 says cuda 12.6",
            f"note: {pure.name}: the accelerator: DESIRED_CUDA=cu126 says cuda 12.6, but it has no "
            "native code, and neither the package's label nor the profile *",
        ]
    )
    result = run(*asked)  # no profile says that demo has builds for CUDA
    result.assert_outcomes(passed=2)
    result = run("--binary-configuration", "demo-*:cuda=12.6", *asked)
    result.assert_outcomes(failed=1, passed=1)


def test_a_glob_that_names_no_package_is_refused(pytester: pytest.Pytester, run: Run) -> None:
    healthy(pytester.path)
    result = run("--binary-configuration", "torch-*:cuda=12.6", NAME)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().startswith(
        "ERROR: --binary-configuration torch-*: no package of the run has such a file name"
    )
