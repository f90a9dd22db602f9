"""Helpers that run `binary-checks cells` and read its output and errors."""

from __future__ import annotations

import pytest

from binary_checks.command import main


def listed(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    assert main(["cells", "--ids", *options]) == 0
    return capsys.readouterr().out.split()


def refusal(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["cells", *options]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("binary-checks: ")
