"""Reading the end of a log that may contain any bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.fleet.page.evidence import read_tail


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "x.log"


def test_a_short_log_is_shown_whole_without_colours_and_progress_bars(log: Path) -> None:
    log.write_bytes(b"one\r\n\ttwo\n\nthree\n")
    assert read_tail(log) == (("one", "        two", "", "three"), False)
    log.write_bytes(b"\n \n")
    assert read_tail(log) == ((), False)
    log.write_bytes(b"\x1b[1;31mfailed\x1b[0m \x1b]0;title\x07here\n 10%\r 50%\r100% done\n")
    assert read_tail(log)[0] == ("failed here", "100% done")


def test_of_a_long_log_the_last_lines_are_shown_and_of_an_endless_line_a_part(log: Path) -> None:
    log.write_text("".join(f"line {number}\n" for number in range(100_000)))
    lines, is_cut = read_tail(log)
    assert is_cut
    assert len(lines) == 80
    assert lines[-1] == "line 99999"
    log.write_bytes(b"x" * 10_000_000)
    ((line,), is_cut) = read_tail(log)
    assert is_cut
    assert len(line) <= 400


def test_any_bytes_are_shown_and_drive_nothing(log: Path) -> None:
    log.write_bytes(bytes(range(256)) + b"\n::error file=x::gotcha\n")
    text = "\n".join(read_tail(log)[0])
    assert text.replace("\n", "").isprintable()
    assert "::error" not in text
    assert "\\xff" in text
