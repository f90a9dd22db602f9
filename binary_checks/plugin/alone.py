"""What differs where pytest runs for the ``binary-checks`` command, in xdist's workers too.

The command names this module to pytest with ``-p``, which workers are told as well.
"""

from __future__ import annotations

import re
import shlex
import sys
from typing import Any

import pytest

from binary_checks import withheld
from binary_checks.errors import ProfileError
from binary_checks.plugin import quiet
from binary_checks.plugin.failures import misused
from binary_checks.plugin.sandboxing import WITHHELD
from binary_checks.plugin.session import SESSION
from binary_checks.plugin.sharing import NOT_SHARED, is_worth_sharing
from binary_checks.reports.writing import demand_place

NOTHING = "name a package, for example dist/*.whl"


@pytest.hookimpl(tryfirst=True)  # before pytest's own
def pytest_configure(config: pytest.Config) -> None:
    """Print little, unless more is asked for, and refuse a report that pytest makes folders for."""
    if written := config.getoption("xmlpath", None):
        try:
            demand_place("--junit-xml", written, config.invocation_params.dir / written)
        except ProfileError as error:
            raise misused(str(error)) from None
    quiet.leave_out_pytests_own(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin to print: by now it is known what was named."""
    quiet.start(session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Refuse to look for something by oneself."""
    state = session.config.stash.get(SESSION, None)
    if not (state and state.examinations):
        raise pytest.UsageError(NOTHING)


def pytest_cmdline_main(config: pytest.Config) -> None:
    """Start xdist's workers, which it has counted by now, as deaf as this process is, or none.

    ``python -c`` imports json and execnet out of the current folder.
    """
    specs = config.getoption("tx", None)
    if specs and is_worth_sharing(config):
        config.option.tx = [_deafen(spec) for spec in specs]
    elif specs:
        config.option.tx, config.option.dist = [], "no"
        told = f"in one process: the packages are too small to share among {len(specs)} workers"
        config.stash[NOT_SHARED] = f"{told}; --dist load shares them anyway"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand what is withheld to a worker of xdist's, which installs packages too."""
    node.workerinput[WITHHELD] = withheld.list_held()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Tell where workers were asked for in vain."""
    if told := config.stash.get(NOT_SHARED, ""):
        terminalreporter.write_line(told)


def _deafen(spec: str) -> str:
    """A worker of xdist's on this host, by this interpreter; others are the user's own words."""
    start = f"{shlex.quote(sys.executable)} {withheld.DEAF}"
    local = re.fullmatch(r"(\d+\*)?popen", spec)
    return f"{spec}//python={start}" if local else spec
