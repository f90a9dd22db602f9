"""Limits of the process that answers queries."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.slow import slow

pytest.importorskip("duckdb", reason="the extra fleet is not installed")

from binary_checks.command import main, query
from fixtures.fleet.nights import Nights, make_nights

ENDLESS = (
    "SELECT count(*) FROM range(100_000_000_000) a, range(1_000_000) b WHERE a.range < b.range"
)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    return make_nights(tmp_path_factory.mktemp("nights") / "store", 2, 2)


def ask(nights: Nights, sql: str) -> int:
    return main(["query", sql, "--csv", "--store", str(nights.folder)])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse no memory")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('x', 3_000_000_000)",
        "SELECT repeat('x', 30_000_000) FROM range(100)",
        "SELECT list_sort(range(60_000_000))",
        *slow(
            "SELECT string_agg(range::VARCHAR, ',') FROM range(1_000_000_000)",
            "SELECT unnest(range(20_000_000)), repeat('x', 100_000_000)",
        ),
    ],
)
def test_an_answer_that_takes_too_much_memory_is_one_line(
    nights: Nights, capsys: pytest.CaptureFixture[str], sql: str
) -> None:
    before = peak_of_children()
    assert ask(nights, sql) == 4
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("binary-checks: query: SQL: ")
    assert shown.err.count("\n") == 1
    assert peak_of_children() <= max(before, 800 << 20)


def peak_of_children() -> int:
    """The bytes that the largest of this process's children had, of those that have ended."""
    import resource

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def test_an_answer_without_end_is_given_up_and_leaves_nothing_behind(
    nights: Nights,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(query, "LONGEST", 0.3)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert ask(nights, ENDLESS) == 4
    assert capsys.readouterr() == (
        "",
        "binary-checks: query: SQL: no answer within 0.3 seconds\n",
    )
    assert [*tmp_path.iterdir()] == []


@pytest.mark.skipif(os.name != "posix", reason="a system without signals")
def test_a_process_that_others_end_is_a_fault_of_the_host(
    nights: Nights, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    monkeypatch.setattr(query, "_PROGRAM", (sys.executable, "-c", ended))
    assert ask(nights, "SELECT 1") == 6
    assert capsys.readouterr().err == (
        "binary-checks: query: the process that answers was ended by SIGKILL\n"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="where /proc shows processes")
def test_the_process_ends_with_the_one_that_asks(nights: Nights) -> None:
    command = [sys.executable, "-m", "binary_checks", "query", ENDLESS, "--store"]
    asking = subprocess.Popen([*command, str(nights.folder)])
    children = Path(f"/proc/{asking.pid}/task/{asking.pid}/children")
    while not (answering := children.read_text().split()):
        assert asking.poll() is None
    answerer = os.pidfd_open(int(answering[0]))
    asking.kill()
    asking.wait()
    ended, _, _ = select.select([answerer], [], [], 60)  # readable once the process has ended
    os.close(answerer)
    assert ended


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_a_command_that_is_asked_to_end_says_so_in_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mine.sql")
    with (
        subprocess.Popen(
            [sys.executable, "-m", "binary_checks", "query", "mine.sql", "--store", "nights"],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        ) as asking,
        (tmp_path / "mine.sql").open("wb"),
    ):  # once it waits for the question
        asking.send_signal(signal.SIGTERM)
        _, said = asking.communicate(timeout=60)
    assert (asking.returncode, said) == (2, "binary-checks: interrupted: SIGTERM\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_an_answer_that_cannot_be_printed_is_one_line(nights: Nights) -> None:
    command = [sys.executable, "-m", "binary_checks", "query", "grid", "--store"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*command, str(nights.folder)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 6
    assert ended.stderr.startswith("binary-checks: standard output or a temporary file cannot be")
    assert ended.stderr.count("\n") == 1


def test_a_python_without_duckdb_says_what_to_install(
    nights: Nights,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "duckdb.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert main(["query", "grid", "--store", str(nights.folder)]) == 6
    assert "pip install 'binary-checks[fleet]'" in capsys.readouterr().err
