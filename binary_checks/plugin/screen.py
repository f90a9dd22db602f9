"""Where the command prints: what the terminal there can show, and one line that comes and goes."""

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

from binary_checks.lines import one_line
from binary_checks.model.protocols import Progress
from binary_checks.reports.terminal import PageLayout, elide

PATIENCE = 1.0  # seconds before a line says what is under way
_PAUSE = 0.1  # seconds until it changes
_FEWEST, _MOST = 20, 160  # columns: in lines that are longer the eye gets lost


class Screen:
    """Prints lines for good, and on a terminal one that the next print takes back."""

    def __init__(self, config: pytest.Config) -> None:
        self._out, self.is_terminal = _open()
        self._next = time.monotonic() + PATIENCE  # when a line that goes may be shown
        self._shown = 0  # columns of it
        self.lost: OSError | None = None  # why nothing can be printed any more
        self.layout = PageLayout(
            columns=_columns() if self.is_terminal else 0,
            colours=_has_colours(config.getoption("color", "auto"), terminal=self.is_terminal),
            ascii=not _can_say("\u2026\u00b7", self._out),
        )

    def print(self, line: str) -> None:
        """Print a line. Where a full disk or a closed pipe takes none, the run goes on to its end.

        Else its reports would not be written.
        """
        if self.lost is not None:
            return
        try:
            self.wipe()
            self._out.write(f"{line}\n")
            self._out.flush()
        except OSError as error:
            self.lost = error

    def show(self, text: str) -> None:
        """Say on a terminal what is under way, once that takes long."""
        if self.is_terminal and time.monotonic() >= self._next:
            self._next = time.monotonic() + _PAUSE
            self.wipe()
            width = self.layout.columns - 1  # in the last column some terminals begin a new line
            text = elide(one_line(text), width, ascii_only=self.layout.ascii)[:width]
            self._out.write(self.layout.paint(text, "dim"))
            self._out.flush()
            self._shown = len(text)

    def wipe(self) -> None:
        """Take back what was shown."""
        if self._shown:
            self._out.write(f"\r{' ' * self._shown}\r")
            self._out.flush()
            self._shown = 0


SCREEN = pytest.StashKey[Screen]()


def _open() -> tuple[TextIO, bool]:
    """Standard output, of a terminal one that pytest does not capture while a check is under way.

    The C locale and PYTHONIOENCODING may leave it few characters: others are escaped.
    """
    out = sys.stdout
    try:
        is_terminal = out.isatty()
        handle = os.dup(out.fileno()) if is_terminal else -1
    except (OSError, ValueError):  # a stand-in for it that is no file
        return out, False
    if not is_terminal:
        return out, False
    if sys.platform == "win32":
        importlib.import_module("colorama").just_fix_windows_console()  # pytest requires it there
    file = open(handle, "w", encoding=out.encoding, errors="backslashreplace")  # noqa: SIM115, PTH123
    return file, True


def _columns() -> int:
    """The width of the terminal, of which COLUMNS has the first say."""
    return min(max(shutil.get_terminal_size().columns, _FEWEST), _MOST)


def _has_colours(asked: str, *, terminal: bool) -> bool:
    """Whether text is coloured, as pytest decides it of its own."""
    if asked in ("yes", "no"):
        return asked == "yes"
    for variable, answer in (("NO_COLOR", False), ("FORCE_COLOR", True)):
        if os.environ.get(variable):
            return answer
    return terminal and os.environ.get("TERM") != "dumb"


def _can_say(text: str, out: TextIO) -> bool:
    try:
        text.encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def progress_line(config: pytest.Config, name: str, doing: str = "reading") -> Progress | None:
    """What to call with (bytes read, bytes in all); None when no terminal watches."""
    show = _find_line(config)
    if show is None:
        return None
    started: float | None = None
    shown = -1
    name = one_line(name)

    def tell(done: int, total: int) -> None:
        nonlocal shown, started
        started = time.monotonic() if started is None else started
        percent = 100 * done // total if total else 100
        if percent == shown or time.monotonic() - started < PATIENCE:
            return
        shown = percent
        show(f"{doing} {name}: {percent} %")
        if done >= total:
            show("")

    return tell


def _find_line(config: pytest.Config) -> Callable[[str], None] | None:
    """What shows a line that goes: ours, or that of pytest's own report."""
    screen = config.stash.get(SCREEN, None)
    if screen is not None:
        return screen.show if screen.is_terminal else None
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not getattr(reporter, "isatty", False):
        return None
    return partial(reporter.rewrite, erase=True)
