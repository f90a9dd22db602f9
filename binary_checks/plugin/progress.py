"""The terminal of the command: its capabilities, and a progress line that is replaced."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TextIO

import pytest

from binary_checks.model import Progress
from binary_checks.reports.terminal import PageLayout
from binary_checks.safe_text import elide, one_line

PATIENCE = 1.0  # seconds before a progress line appears
_PAUSE = 0.1  # seconds between changes of the progress line
# columns of lines at the least and at the most; longer lines are hard to read
_FEWEST, _MOST = 20, 160


class Screen:
    """Prints lines and, on a terminal, a progress line that the next print replaces."""

    def __init__(self, config: pytest.Config) -> None:
        self._out, self.is_terminal = _open()
        self._next = time.monotonic() + PATIENCE  # time from which a progress line may be shown
        self._shown = 0  # columns of the progress line that is shown
        self.error: OSError | None = None  # the reason if printing failed
        self.layout = PageLayout(
            # COLUMNS takes precedence over the terminal's own width
            columns=min(max(shutil.get_terminal_size().columns, _FEWEST), _MOST)
            if self.is_terminal
            else 0,
            colours=_has_colours(config.getoption("color", "auto"), terminal=self.is_terminal),
            ascii=not _can_print("\u2026\u00b7", self._out),
        )

    def print(self, line: str) -> None:
        """Print a line. If this fails, the run continues in order to write its reports."""
        if self.error is not None:
            return
        try:
            self.wipe()
            self._out.write(f"{line}\n")
            self._out.flush()
        except OSError as error:
            self.error = error

    def show(self, text: str) -> None:
        """Show progress on a terminal, if the run takes long."""
        if self.is_terminal and time.monotonic() >= self._next:
            self._next = time.monotonic() + _PAUSE
            self.wipe()
            width = self.layout.columns - 1  # some terminals wrap after the last column
            text = elide(one_line(text), width, ascii_only=self.layout.ascii)[:width]
            self._out.write(self.layout.paint(text, "dim"))
            self._out.flush()
            self._shown = len(text)

    def wipe(self) -> None:
        """Remove the progress line."""
        if self._shown:
            self._out.write(f"\r{' ' * self._shown}\r")
            self._out.flush()
            self._shown = 0


SCREEN = pytest.StashKey[Screen]()


def _open() -> tuple[TextIO, bool]:
    """Return a copy of standard output that pytest does not capture, and whether it is a terminal.

    The C locale and PYTHONIOENCODING may allow few characters; other characters are escaped.
    """
    out = sys.stdout
    try:
        is_terminal = out.isatty()
        handle = os.dup(out.fileno()) if is_terminal else -1
    except (OSError, ValueError):  # standard output was replaced by an object that is not a file
        return out, False
    if not is_terminal:
        return out, False
    if sys.platform == "win32":
        # on Windows pytest requires colorama
        importlib.import_module("colorama").just_fix_windows_console()
    file = open(handle, "w", encoding=out.encoding, errors="backslashreplace")  # noqa: SIM115, PTH123
    return file, True


def _has_colours(asked: str, *, terminal: bool) -> bool:
    """Return whether text is coloured, by the same rules as pytest."""
    if asked in ("yes", "no"):
        return asked == "yes"
    for variable, answer in (("NO_COLOR", False), ("FORCE_COLOR", True)):
        if os.environ.get(variable):
            return answer
    return terminal and os.environ.get("TERM") != "dumb"


def _can_print(text: str, out: TextIO) -> bool:
    try:
        text.encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def progress_line(config: pytest.Config, name: str, doing: str = "reading") -> Progress | None:
    """Return a callback for (bytes read, bytes in total); None without a terminal."""
    show = _find_line(config)
    if show is None:
        return None
    started: float | None = None
    shown = -1
    name = one_line(name)

    def report(done: int, total: int) -> None:
        nonlocal shown, started
        started = time.monotonic() if started is None else started
        percent = 100 * done // total if total else 100
        if percent == shown or time.monotonic() - started < PATIENCE:
            return
        shown = percent
        show(f"{doing} {name}: {percent} %")
        if done >= total:
            show("")

    return report


def _find_line(config: pytest.Config) -> Callable[[str], None] | None:
    """Return the function that shows a progress line: the command's, or pytest's."""
    screen = config.stash.get(SCREEN, None)
    if screen is not None:
        return screen.show if screen.is_terminal else None
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not getattr(reporter, "isatty", False):
        return None
    return partial(reporter.rewrite, erase=True)
