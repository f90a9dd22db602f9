"""What takes long is shown where a terminal watches, and nowhere else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from binary_checks.plugin import progress


class Terminal:
    """A terminal reporter that remembers what it was told to show."""

    def __init__(self, *, isatty: bool) -> None:
        self.isatty = isatty
        self.shown: list[str] = []

    def rewrite(self, text: str, *, erase: bool) -> None:
        assert erase
        self.shown.append(text)


def config_with(reporter: Terminal | None) -> Any:
    manager = SimpleNamespace(get_plugin=lambda name: reporter if name else None)
    return SimpleNamespace(pluginmanager=manager, stash={})


def test_reading_is_shown_by_percent_and_wiped_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    terminal = Terminal(isatty=True)
    show = progress.progress_line(config_with(terminal), "demo.whl")
    assert show is not None
    for done in (1, 1, 50, 100):
        show(done, 100)
    assert terminal.shown == [
        "reading demo.whl: 1 %",
        "reading demo.whl: 50 %",
        "reading demo.whl: 100 %",
        "",
    ]


def test_what_is_quick_is_not_shown() -> None:
    terminal = Terminal(isatty=True)
    show = progress.progress_line(config_with(terminal), "demo.whl")
    assert show is not None
    show(100, 100)
    assert terminal.shown == []


@pytest.mark.parametrize("reporter", [None, Terminal(isatty=False)])
def test_nobody_watching_is_shown_nothing(reporter: Terminal | None) -> None:
    assert progress.progress_line(config_with(reporter), "demo.whl") is None
    assert reporter is None or reporter.shown == []
