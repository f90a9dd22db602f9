"""Shows on a terminal how far the reading of a large package has come; silent anywhere else."""

from __future__ import annotations

import time

import pytest

from binary_checks.lines import one_line
from binary_checks.model.protocols import Progress

PATIENCE = 1.0  # seconds of silence before the first line


def progress_line(config: pytest.Config, name: str) -> Progress | None:
    """What to call with (bytes read, bytes in all); None when no terminal watches."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not getattr(reporter, "isatty", False):
        return None
    started: float | None = None
    shown = -1
    name = one_line(name)

    def show(done: int, total: int) -> None:
        nonlocal shown, started
        started = time.monotonic() if started is None else started
        percent = 100 * done // total if total else 100
        if percent == shown or time.monotonic() - started < PATIENCE:
            return
        shown = percent
        reporter.rewrite(f"reading {name}: {percent} %", erase=True)
        if done >= total:
            reporter.rewrite("", erase=True)

    return show
