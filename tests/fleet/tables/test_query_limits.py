"""Limits of answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

from fixtures.slow import slow

pytest.importorskip("duckdb", reason="the extra fleet is not installed")

from binary_checks.command import main, query
from fixtures.fleet.nights import Nights, make_nights
from tests.fleet.nights.night_cells import demand_heard

ENDLESS = (
    "SELECT count(*) FROM range(100_000_000_000) a, range(1_000_000) b WHERE a.range < b.range"
)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    return make_nights(tmp_path_factory.mktemp("nights") / "store", 2, 2)


def ask(nights: Nights, sql: str) -> int:
    return main(["query", sql, "--csv", "--store", str(nights.folder)])


def start(
    nights: Nights, sql: str, stdout: int | IO[str] = subprocess.PIPE
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "binary_checks", "query", sql, "--csv", "--store"]
    pipes = {"stdout": stdout, "stderr": subprocess.PIPE}
    return subprocess.Popen([*command, str(nights.folder)], text=True, **pipes)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse no memory")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list_sort(range(60_000_000))",
        *slow(
            "SELECT repeat('x', 3_000_000_000)",
            "SELECT repeat('x', 30_000_000) FROM range(100)",
            "SELECT string_agg(range::VARCHAR, ',') FROM range(1_000_000_000)",
            "SELECT unnest(range(20_000_000)), repeat('x', 100_000_000)",
        ),
    ],
)
def test_an_answer_that_takes_too_much_memory_is_one_line(nights: Nights, sql: str) -> None:
    before = peak_of_children()
    with start(nights, sql) as asking:
        out, err = asking.communicate(timeout=60)
    assert (asking.returncode, out) == (4, "")
    assert err.startswith("binary-checks: SQL: ")
    assert err.count("\n") == 1
    assert peak_of_children() <= max(before, 800 << 20)


def peak_of_children() -> int:
    """The bytes that the largest of this process's children had, of those that have ended."""
    import resource

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse no memory")
def test_the_limits_of_an_answer_end_with_it(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    import resource

    before = [resource.getrlimit(each) for each in (resource.RLIMIT_DATA, resource.RLIMIT_FSIZE)]
    assert ask(nights, "SELECT repeat('x', 3_000_000_000)") == 4
    assert ask(nights, "SELECT 1 AS one") == 0
    assert capsys.readouterr().out == "one\n1\n"
    after = [resource.getrlimit(each) for each in (resource.RLIMIT_DATA, resource.RLIMIT_FSIZE)]
    assert after == before


@pytest.mark.skipif(sys.platform != "linux", reason="other systems limit no answer")
def test_an_answer_that_is_too_long_is_one_line(
    nights: Nights, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "_WHOLE", 1 << 20)
    assert ask(nights, "SELECT repeat('x', 1_000) FROM range(100_000)") == 4
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert shown.err.startswith("binary-checks: SQL: the answer cannot be kept: ")


def test_an_answer_without_end_is_given_up_and_leaves_nothing_behind(
    nights: Nights,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(query, "LONGEST", 0.3)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for sql in (ENDLESS, "SELECT range FROM range(100_000_000_000)"):
        assert ask(nights, sql) == 4
        assert capsys.readouterr() == ("", "binary-checks: SQL: no answer within 0.3 seconds\n")
        assert [*tmp_path.iterdir()] == []


@pytest.mark.skipif(os.name != "posix", reason="a system without signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_while_it_answers(
    nights: Nights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    demand_heard(number)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with start(nights, ENDLESS) as asking:
        while not [*tmp_path.rglob("parts.parquet")]:  # it copies the tables before it answers
            assert asking.poll() is None
            time.sleep(0.05)
        asking.send_signal(number)
        out, err = asking.communicate(timeout=60)
    assert (asking.returncode, out) == (2, "")
    # DuckDB may make its own error of a signal, which does not name it.
    assert err.replace(": SIGTERM", "") == "binary-checks: interrupted\n"
    assert [*tmp_path.iterdir()] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_an_answer_that_cannot_be_printed_is_one_line(nights: Nights) -> None:
    with Path("/dev/full").open("w") as full, start(nights, "grid", full) as asking:
        _, said = asking.communicate(timeout=60)
    assert asking.returncode == 6
    assert said.startswith("binary-checks: standard output or a temporary file cannot be")
    assert said.count("\n") == 1


def test_a_python_without_duckdb_says_what_to_install(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "duckdb.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with start(nights, "grid") as asking:
        _, said = asking.communicate(timeout=60)
    assert asking.returncode == 6
    assert "pip install 'binary-checks[fleet]'" in said
