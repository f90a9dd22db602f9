"""Checks packages: pytest with the plugin, on nothing but the arguments that it is given."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from binary_checks.command import lose_output, suggest
from binary_checks.command.helping import OPTIONS
from binary_checks.exit_codes import EMPTY, FIT
from binary_checks.plugin.failures import misused
from binary_checks.plugin.sandboxing import StartsAnew
from binary_checks.plugin.screen import SCREEN

_XDIST = (
    *("-n", "--num", "-d", "--dist", "--max", "--loadscope", "--no-loadscope", "--testrun"),
    *("--tx", "--px", "--rsync", "-h", "--help"),
)
"""How options begin that are pytest-xdist's, or may be, which takes its time to be imported."""


def check(arguments: Sequence[str], *, alone: bool = False) -> int:
    """Run pytest in this process on nothing but the given arguments.

    ``alone`` in it, it may start anew. Raises BrokenPipeError where nobody reads what it prints.
    """
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    ini = resources.files("binary_checks") / "binary-checks.ini"
    own = ["-p", "binary_checks.plugin", "-p", "binary_checks.plugin.alone"]
    own += ["-p", "no:cacheprovider"]
    # It collects garbage twice at the end, a tenth of a run's time, for what tests left unclosed:
    own += ["-p", "no:unraisableexception"]
    if sys.flags.optimize:  # else pytest says that failing tests will pass: ours assert nothing
        own += ["-W", "ignore:ASSERTIONS ARE NOT EXECUTED:pytest.PytestConfigWarning"]
    if any(argument.startswith(_XDIST) for argument in arguments):
        own += ["-p", "xdist.plugin"]
    place = ["-c", str(ini), "--rootdir", str(Path.cwd()), "--noconftest", "--assert=plain"]
    output = _Output()
    plugins = [_RefusesInOneLine(), output, *([StartsAnew()] if alone else [])]
    status = int(pytest.main([*own, *place, *arguments], plugins=plugins))
    if output.lost is None:
        return status
    if isinstance(output.lost, BrokenPipeError):
        raise output.lost
    lost = lose_output(output.lost)
    return lost if status in (FIT, EMPTY) else status


class _Output:
    """Knows at the end whether all of what was to be printed could be."""

    lost: OSError | None = None

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Ask what printed it."""
        screen = config.stash.get(SCREEN, None)
        self.lost = screen.lost if screen else None


class _RefusesInOneLine:
    """Says of an option that cannot be followed no more than that, and which one may be meant."""

    @pytest.hookimpl(wrapper=True)
    def pytest_cmdline_parse(self) -> Generator[None, Any, Any]:
        """Take what pytest says of its own usage, ini file and folder out of its error."""
        try:
            return (yield)
        except pytest.UsageError as error:
            found = re.search(r"^[^\n]*?: error: ([^\n]*)", f"{error}", re.MULTILINE)
            raise misused(_hint(found[1]) if found else f"{error}") from None


def _hint(complaint: str) -> str:
    unknown = complaint.removeprefix("unrecognized arguments: ")
    if unknown == complaint:
        return complaint
    name = unknown.split()[0].partition("=")[0]
    return f"unknown option {name}{suggest(name, OPTIONS)}"
