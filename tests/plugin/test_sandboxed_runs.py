"""A run says what holds of its sandbox, and a package finds no secret in any process of ours."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, demand_sandbox, forbid_namespaces
from fixtures.slow import slow
from tests.plugin.conftest import TRY_AGAIN, run_command

linux = pytest.mark.skipif(sys.platform != "linux", reason="namespaces and /proc are Linux's")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has neither /proc nor exec")

SPY = """
import os, sys
pid, found = os.getpid(), []
while pid > 1 and sys.platform == "linux":
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            text = file.read()
        with open("/proc/%d/stat" % pid) as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        break
    if b"TOP_SECRET=" in text:
        found.append(pid)
if found or "TOP_SECRET" in os.environ:
    raise ValueError("%d processes tell the secret" % len(found))
"""


@pytest.fixture
def spy(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOP_SECRET", "token")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return build_wheel(pytester.path, name="spy", tags=PURE, members={"spy.py": SPY})


def check(pytester: pytest.Pytester, *arguments: str | Path) -> pytest.RunResult:
    command = [sys.executable, "-m", "binary_checks", *map(str, arguments)]
    return pytester.run(*command)


def test_the_header_names_the_sandbox_and_the_package_finds_nothing(
    pytester: pytest.Pytester, spy: Path
) -> None:
    chosen = demand_sandbox("auto")
    result = check(pytester, spy, "-v", "-k", "import-fails", "--binary-sandbox", "require")
    result.stdout.fnmatch_lines([f"binary_checks: *, {chosen.describe()}", "*1 passed*"])


@pytest.mark.parametrize("workers", [(), *slow((("-n", "1", "--dist", "load"),))])
def test_without_one_the_environment_is_withheld(
    pytester: pytest.Pytester, spy: Path, workers: tuple[str, ...]
) -> None:
    result = check(pytester, spy, "-k", "import-fails", "--binary-sandbox", "off", *workers)
    expected = "not sandboxed: --sandbox off; packages have all rights of this user"
    result.stdout.fnmatch_lines([expected, "*.whl: fit · 1 check, ran on *"])


@linux
@pytest.mark.slow
def test_plain_pytest_keeps_its_environment_and_says_that_nothing_holds(
    pytester: pytest.Pytester, spy: Path
) -> None:
    result = pytester.runpytest_subprocess(spy, "-k", "import-fails", "--binary-sandbox", "off")
    result.stdout.fnmatch_lines(["*, not sandboxed: *", "*processes tell the secret*"])


def test_what_is_withheld_reaches_the_installer(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing listens on port 9: without the variable the index of the machine would be asked."""
    monkeypatch.setenv("UV_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("PIP_RETRIES", "1")  # without one pip does not say that nobody answered
    wheel = build_wheel(pytester.path, tags=PURE, requires=["attrs"], members={"demo.py": ""})
    result = check(pytester, wheel, "-k", "import-fails", "--binary-sandbox", "off")
    result.stdout.re_match_lines(
        [r".*: not judged: the index cannot be reached: .*"]
    )  # uv's words, pip's


@linux
def test_one_that_is_required_and_does_not_hold_ends_the_run(
    pytester: pytest.Pytester, spy: Path
) -> None:
    result = pytester.run(
        *("env", f"PATH={pytester.path}"),
        *(sys.executable, "-m", "binary_checks", str(spy), "--binary-sandbox", "require"),
    )
    assert result.ret == TRY_AGAIN
    reason = "bwrap is not on PATH; install bubblewrap"
    expected = f"*--sandbox require: no sandbox works here: {reason}"
    result.stderr.fnmatch_lines([expected])


@linux
def test_where_the_system_forbids_one_the_reason_is_bubblewraps(
    pytester: pytest.Pytester, spy: Path
) -> None:
    demand_sandbox("auto")
    result = pytester.run(
        *forbid_namespaces(),
        *(sys.executable, "-m", "binary_checks", str(spy), "--binary-sandbox", "require"),
    )
    assert result.ret == TRY_AGAIN
    result.stderr.fnmatch_lines(["*no sandbox works here: no bubblewrap: bwrap: *"])


def test_a_static_run_tries_none(spy: Path) -> None:
    static = ("-v", "--binary-static", "--binary-sandbox", "require")
    result = run_command(spy, *static, "-k", "duplicate")
    result.stdout.fnmatch_lines(["binary_checks: *, static checks only", "*2 passed*"])
