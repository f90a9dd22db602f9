"""Reading the end of a log that may contain any bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.fleet.page.evidence import read_tail


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "x.log"


def test_a_short_log_is_shown_whole(log: Path) -> None:
    log.write_bytes(b"one\r\n\ttwo\n\nthree\n")
    assert read_tail(log) == (("one", "        two", "", "three"), False)


def test_an_empty_log_has_no_lines(log: Path) -> None:
    log.write_bytes(b"\n \n")
    assert read_tail(log) == ((), False)


def test_of_a_long_log_the_last_lines_are_shown(log: Path) -> None:
    log.write_text("".join(f"line {number}\n" for number in range(100_000)))
    lines, is_cut = read_tail(log)
    assert is_cut
    assert len(lines) == 80
    assert lines[-1] == "line 99999"


def test_one_endless_line_is_cut(log: Path) -> None:
    log.write_bytes(b"x" * 10_000_000)
    ((line,), is_cut) = read_tail(log)
    assert is_cut
    assert len(line) <= 400


def test_colours_and_progress_bars_are_left_out(log: Path) -> None:
    log.write_bytes(b"\x1b[1;31mfailed\x1b[0m \x1b]0;title\x07here\n 10%\r 50%\r100% done\n")
    assert read_tail(log)[0] == ("failed here", "100% done")


def test_any_bytes_are_shown_and_drive_nothing(log: Path) -> None:
    log.write_bytes(bytes(range(256)) + b"\n::error file=x::gotcha\n")
    text = "\n".join(read_tail(log)[0])
    assert text.replace("\n", "").isprintable()
    assert "::error" not in text
    assert "\\xff" in text
