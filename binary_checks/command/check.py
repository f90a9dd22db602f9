"""Checking packages: pytest runs with the plugin and only the given arguments."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from binary_checks.command import MISUSED, complain, report_unwritten_output, suggest
from binary_checks.command.hidden_environment import restart_without_secrets
from binary_checks.errors import EMPTY, FIT
from binary_checks.options import OPTIONS, Program
from binary_checks.plugin.arguments import CommandProcess
from binary_checks.plugin.progress import SCREEN

_XDIST = (
    *("-n", "--num", "-d", "--dist", "--max", "--loadscope", "--no-loadscope", "--testrun"),
    *("--tx", "--px", "--rsync", "-h", "--help"),
)
"""The beginnings of pytest-xdist's options. Importing xdist takes time, so it is imported only if
one of these options is given.
"""
_PYTESTS = (
    *("--capture", "--collect-only", "--color", "--deselect", "--dist", "--durations"),
    *("--exitfirst", "--full-trace", "--help", "--help-pytest", "--junit-xml", "--list"),
    *("--markers", "--maxfail", "--no-header", "--no-summary", "--numprocesses", "--quiet"),
    *("--show-capture", "--tb", "--verbose", "--version"),
)
_OPTIONS = tuple(sorted({*(f"--{name}" for name in OPTIONS), *_PYTESTS}))
"""Long options that are suggested for a mistyped one."""
_COLUMNS = re.compile(r"^  --binary-[^ \n]+(?: [^ \n]+)?(?=  )", re.MULTILINE)
"""An option in pytest's help that shares its line with its description."""
_STRICT = re.compile(r"^  --strict  .*\n", re.MULTILINE)
"""pytest's own option in its help, which the command replaces."""


def check(arguments: Sequence[str], *, started: float | None = None, alone: bool = False) -> int:
    """Run pytest in this process with only the given arguments.

    The command began at ``started``, by the monotonic clock. With ``alone``, the process may
    restart itself. Raises BrokenPipeError if the reader of the output has closed it.
    """
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    ini = resources.files("binary_checks") / "binary-checks.ini"
    own = ["-p", "binary_checks.plugin", "-p", "binary_checks.plugin.command_mode"]
    own += ["-p", "no:cacheprovider"]
    # This plugin collects garbage twice at the end, which takes a tenth of a run's time.
    own += ["-p", "no:unraisableexception"]
    if sys.flags.optimize:  # otherwise pytest warns about assertions, which our checks do not use
        own += ["-W", "ignore:ASSERTIONS ARE NOT EXECUTED:pytest.PytestConfigWarning"]
    if any(argument.startswith(_XDIST) for argument in arguments):
        own += ["-p", "xdist.plugin"]
    place = ["-c", str(ini), "--rootdir", str(Path.cwd()), "--noconftest", "--assert=plain"]
    output = _LostOutput()
    began = time.monotonic() if started is None else started
    restart = partial(restart_without_secrets, began) if alone else lambda: None
    process = CommandProcess(began, restart)
    plugins = [_RefusesInOneLine(), output, process]
    try:
        status = int(pytest.main([*own, *place, *lengthen(arguments)], plugins=plugins))
    except _Refused as error:
        complain(str(error))
        return MISUSED
    if output.error is None:
        return status
    if isinstance(output.error, BrokenPipeError):
        raise output.error
    failed = report_unwritten_output(output.error)
    return failed if status in (FIT, EMPTY) else status


def lengthen(arguments: Iterable[str]) -> Iterator[str]:
    """Yield our command's arguments, with our options under the names that they have in pytest."""
    following = iter(arguments)
    for argument in following:
        name = argument.partition("=")[0].removeprefix("--")
        short = argument.startswith("--") and name in OPTIONS
        yield argument.replace("--", "--binary-", 1) if short else argument
        if argument == "--":
            yield from following


def print_all_options() -> int:
    """Print pytest's help, with our options named as in the command."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = check(["--help"])
    text = _COLUMNS.sub(lambda found: found[0] + " " * len("binary-"), out.getvalue())
    print(Program.COMMAND.name_options(_STRICT.sub("", text)), end="")
    return status


class _LostOutput:
    """A plugin that keeps, at the end of the run, the error that made output incomplete."""

    error: OSError | None = None

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Ask the screen whether printing failed."""
        screen = config.stash.get(SCREEN, None)
        self.error = screen.error if screen else None


class _Refused(Exception):
    """A wrong argument, which pytest would print in a form of its own."""


class _RefusesInOneLine:
    """Reports wrong arguments in one line, with our options named as in the command."""

    @pytest.hookimpl(wrapper=True)
    def pytest_cmdline_parse(self) -> Generator[None, Any, Any]:
        """Leave out pytest's usage, ini file and folder from pytest's error."""
        try:
            return (yield)
        except pytest.UsageError as error:
            found = re.search(r"^[^\n]*?: error: ([^\n]*)", f"{error}", re.MULTILINE)
            message = _hint(found[1]) if found else f"{error}"
            raise _Refused(message) from None

    @pytest.hookimpl(wrapper=True)
    def pytest_cmdline_main(self) -> Generator[None, Any, Any]:
        """In errors of the plugin, spell options as on our own command line."""
        try:
            return (yield)
        except pytest.UsageError as error:
            for line in error.args:
                complain(str(line))
            return MISUSED


def _hint(complaint: str) -> str:
    unknown = complaint.removeprefix("unrecognized arguments: ")
    if unknown == complaint:
        return complaint
    name = unknown.split()[0].partition("=")[0]
    short = Program.COMMAND.name_options(name)
    return f"unknown option {short}{suggest(short, _OPTIONS)}"
