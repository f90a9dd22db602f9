"""Changes to pytest when it runs for the ``binary-checks`` command, also in xdist workers.

The command passes this module to pytest with ``-p``, and xdist passes it on to workers.
"""

from __future__ import annotations

import re
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from binary_checks import processes
from binary_checks.errors import MISUSED, ProfileError
from binary_checks.plugin.arguments import HIDDEN_VARIABLES, find_command_process
from binary_checks.plugin.failures import usage_error
from binary_checks.plugin.progress import SCREEN, Screen
from binary_checks.plugin.reporting import RESULT_COLLECTOR, ResultCollector, iter_remarks_before
from binary_checks.plugin.session import SESSION, Session
from binary_checks.reports.explanation import abridge
from binary_checks.reports.terminal import RunText
from binary_checks.reports.writing import require_place
from binary_checks.safe_text import cut, one_line

NOTHING = "name a package, for example dist/*.whl"


@pytest.hookimpl(tryfirst=True)  # before pytest itself
def pytest_configure(config: pytest.Config) -> None:
    """Replace pytest's report unless the user asks for more, and check the path of a JUnit file.

    pytest would create missing folders for this file.
    """
    if written := config.getoption("xmlpath", None):
        try:
            require_place("--junit-xml", written, config.invocation_params.dir / written)
        except ProfileError as error:
            raise usage_error(str(error)) from None
    if is_quiet(config):
        config.pluginmanager.set_blocked("terminalreporter")
        config.stash[SCREEN] = Screen(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start the output, since the named packages are now known."""
    config = session.config
    state, screen = config.stash.get(SESSION, None), config.stash.get(SCREEN, None)
    if state is not None and screen is not None and state.examinations:
        reporter = QuietReporter(config, state, screen)
        config.pluginmanager.register(reporter, QUIET)
        reporter.begin()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Refuse to collect anything if no package is named."""
    state = session.config.stash.get(SESSION, None)
    if not (state and state.examinations):
        raise pytest.UsageError(NOTHING)


def pytest_cmdline_main(config: pytest.Config) -> None:
    """Start xdist's workers with this process's safe path.

    Without the safe path, ``python -c`` would import json and execnet from the current folder.
    xdist has already set the number of workers.
    """
    specs = config.getoption("tx", None)
    if specs:
        start = f"{shlex.quote(sys.executable)} {processes.SAFE_PATH}"
        config.option.tx = [  # a remote worker has an interpreter of its own
            f"{spec}//python={start}" if re.fullmatch(r"(\d+\*)?popen", spec) else spec
            for spec in specs
        ]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the hidden variables to an xdist worker, since it installs packages, too."""
    node.workerinput[HIDDEN_VARIABLES] = processes.list_hidden()


# The command's output instead of pytest's report: each verdict when it is known, and a count.

QUIET = "binary_checks_quiet"
"""The reporter's name as a plugin."""
_PYTESTS_OWN = (
    *("collectonly", "usepdb", "trace", "fulltrace", "setupshow", "setuponly", "setupplan"),
    *("help", "version", "markers", "showfixtures", "show_fixtures_per_test", "durations"),
)
_DEFAULTS = {"reportchars": "fE", "tbstyle": "auto"}


def is_quiet(config: pytest.Config) -> bool:
    """Return False if an option requests output that only pytest's own report shows, else True."""
    option = vars(config.option)
    own = any(option.get(name) for name in _PYTESTS_OWN)
    own = own or any(option.get(name, usual) != usual for name, usual in _DEFAULTS.items())
    return not (own or option.get("verbose", 0) > 0 or hasattr(config, "workerinput"))


class QuietReporter:
    """Prints the verdict on each package when its last check has ended, in any worker."""

    def __init__(self, config: pytest.Config, state: Session, screen: Screen) -> None:
        self._config, self._state, self._screen = config, state, screen
        command = find_command_process(config)
        self._started = command.started if command else time.monotonic()
        examinations = state.examinations.values()
        self._text = RunText(
            (abridge(each, state.settings.program) for each in state.settings.checks),
            screen.layout,
            names=[state.ledger.package(each.node).shown_name for each in examinations],
            paths={each.node: _shorten(each.source.path) for each in examinations},
        )
        self._printed: set[str] = set()  # packages whose verdict was printed
        self._errors: list[str] = []  # errors of pytest and its workers

    @property
    def _collector(self) -> ResultCollector:
        collector = self._config.pluginmanager.get_plugin(RESULT_COLLECTOR)
        assert isinstance(collector, ResultCollector)
        return collector

    def begin(self) -> None:
        """Print unusual settings of this run: a profile, or packages that run without a sandbox."""
        profile, places = self._state.profile, self._state.settings.places
        lines = [] if profile.source == "default" else [f"profile {one_line(profile.source)}"]
        lines += iter_remarks_before(self._config, self._state)
        sandbox = places[0].sandbox if places else None
        if sandbox is not None and not sandbox.holds and not sandbox.contained:
            text = self._state.settings.program.name_options(sandbox.describe())
            lines.append(one_line(text))
        for line in lines:
            for part in self._screen.layout.wrap(line, 0, 2):
                self._screen.print(self._screen.layout.paint(part, "dim"))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Show the current check on a terminal."""
        if examination := self._state.find(nodeid):
            count = len(self._state.examinations)
            place = f"{len(self._printed) + 1} of {count}: " if count > 1 else ""
            self._screen.show(f"{place}{examination.file_name}: {nodeid.rpartition('::')[2]}")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Print the verdict after a package's last check."""
        examination = self._state.find(nodeid)
        if examination is not None and self._collector.is_over(examination.node):
            self._printed.add(examination.node)
            for line in self._text.iter_package(self._state.ledger.result(examination.node)):
                self._screen.print(line)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep the errors of collecting."""
        if report.failed:
            self._errors.append(f"{report.nodeid}: {report.longreprtext}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        """Keep the reason why an xdist worker ended."""
        if error:
            gateway = getattr(node, "gateway", None)
            self._errors.append(f"worker {getattr(gateway, 'id', '')}: {error}")

    def pytest_internalerror(self) -> None:
        """Clear the progress line: pytest itself writes the error to stderr."""
        self._screen.wipe()

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Keep pytest's message about an interruption."""
        reason = str(excinfo.value)
        self._errors.append(f"interrupted: {reason}" if reason else "interrupted")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Print verdicts on packages whose checks did not all end, and the count."""
        run = self._state.result
        if run is None or exitstatus == MISUSED:
            self._screen.wipe()
            return
        for package in run.packages:
            if package.node not in self._printed:
                for line in self._text.iter_package(package):
                    self._screen.print(line)
        for error in self._errors:
            self._screen.print(self._screen.layout.paint(cut(one_line(error)), "red"))
        for line in self._text.close(run, time.monotonic() - self._started):
            self._screen.print(line)


def _shorten(path: Path) -> str:
    """Return the path relative to the current folder, if it is below this folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
