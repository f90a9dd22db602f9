"""The options under pytest, and whether the plugin has work in a run.

pytest loads this module in every run. So it imports no folder of the package, which would take ten
times as long.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from binary_checks.options import OPTIONS, Program

COMMAND_INI = "binary_command"
"""Set in the command's ini file: code that the user did not name does not run."""
_ASKING = (
    "installed",
    "published",
    "for",
    "facts",
    "python",
    "place",
    "with",
    "requirements_folder",
    "require",
    "expect_set",
    "known",
    "write_known",
    "report",
)
"""Options that start the plugin even without a package, if only to refuse them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("binary_checks", "checks of built binary packages")
    for name, keywords in OPTIONS.items():
        group.addoption(f"--binary-{name}", **keywords)
    parser.addini(
        COMMAND_INI, "run no code from a profile that was found rather than named", "bool", False
    )


def find_program(config: pytest.Config) -> Program:
    """Return the program that the user called."""
    return Program.COMMAND if config.getini(COMMAND_INI) else Program.PYTEST


def explain_unknown(unknown: Iterable[str]) -> str:
    """Return an error for the first unknown option that resembles one of ours, or ""."""
    for argument in unknown:
        name = argument.partition("=")[0]
        bare = name.removeprefix("--").removeprefix("binary-")
        if name == f"--{bare}" and bare in OPTIONS:
            return f"unknown option {name}: under pytest it is --binary-{bare}"
        if name.startswith("--binary-"):
            from difflib import get_close_matches

            close = get_close_matches(bare, OPTIONS, n=1)
            hint = f"; did you mean --binary-{close[0]}?" if close else ""
            return f"unknown option {name}{hint}"
    return ""


def is_asked(config: pytest.Config) -> bool:
    """Return whether an argument may be a package, or an option needs the plugin.

    A ``*.py`` file is not a package, nor is a folder without a suffix in its name. For our own
    command every argument is a package.
    """
    if config.getini(COMMAND_INI):
        return True
    option = config.option
    asked = option.markers or any(getattr(option, f"binary_{name}") for name in _ASKING)
    return bool(asked or any(map(_may_be_package, config.args)))


def _may_be_package(argument: str) -> bool:
    path = Path(argument.partition("::")[0])
    try:
        return path.suffix != ".py" and (bool(path.suffix) or not path.is_dir())
    except (OSError, ValueError):  # the name is too long, or not valid text
        return True
