"""The options of the users' contract, and whether a run has anything for the plugin to do.

pytest loads this in every run, so it imports no room: those cost ten times what it does.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from binary_checks.options import OPTIONS, Program

DEAF_INI = "binary_deaf"
"""Set in the ini file of the command: nothing runs that was found rather than named."""
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
"""Options that ask for something by themselves, if only for the line that refuses them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the users' contract."""
    group = parser.getgroup("binary_checks", "checks of built binary packages")
    for name, keywords in OPTIONS.items():
        group.addoption(f"--binary-{name}", **keywords)
    parser.addini(
        DEAF_INI, "run no code from a profile that was found rather than named", "bool", False
    )


def find_program(config: pytest.Config) -> Program:
    """Return the program that the user called."""
    return Program.COMMAND if config.getini(DEAF_INI) else Program.PYTEST


def explain_unknown(unknown: Iterable[str]) -> str:
    """Return what is wrong with the first unknown option that may mean one of ours; "" if none."""
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
    """Whether there may be a package among the arguments, or an option asks for something.

    Neither tests in Python are one, nor folders, unless they are called like a file. The command
    takes nothing but packages.
    """
    if config.getini(DEAF_INI):
        return True
    option = config.option
    asked = option.markers or any(getattr(option, f"binary_{name}") for name in _ASKING)
    return bool(asked or any(map(_may_be_package, config.args)))


def _may_be_package(argument: str) -> bool:
    path = Path(argument.partition("::")[0])
    try:
        return path.suffix != ".py" and (bool(path.suffix) or not path.is_dir())
    except (OSError, ValueError):  # too long a name, or one that is no text
        return True
