"""What the user sees: outcomes, the summary, SARIF and the exit status."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from binary_checks import __version__
from binary_checks.errors import GatherError
from binary_checks.lines import cut, one_line
from binary_checks.plugin.failures import ProblemsAccepted, misused
from binary_checks.plugin.items import PackageItem
from binary_checks.plugin.options import DEAF_INI
from binary_checks.plugin.scribe import ENTRY, SCRIBE, Scribe
from binary_checks.plugin.session import SESSION, no_such_check, profile_and_checks
from binary_checks.profile.found import announce, say_left_out
from binary_checks.reports.explanation import explain

_MISUSED = pytest.ExitCode.USAGE_ERROR
_ENDED = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)
"""How a run ends that came to its end."""


def answer(config: pytest.Config) -> int:
    """What ``--explain`` asks for. Raises pytest.UsageError for what is no check."""
    name = config.option.explain
    checks = {check.id: check for check in profile_and_checks(config)[1]}
    if name not in checks:
        raise misused(no_such_check(name, checks))
    sys.stdout.write(explain(checks[name]))
    return int(pytest.ExitCode.OK)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the profile, and the interpreter that packages run in."""
    session = config.stash[SESSION]
    if not session.examinations:
        return []
    settings = session.settings
    sandbox = settings.sandbox.describe() if settings.sandbox else "not sandboxed"
    static = config.option.binary_static
    run = "static checks only" if static else f"{settings.python}, {sandbox}"
    lines = [f"binary_checks: {__version__}, profile {session.profile.source}, {run}"]
    if config.option.binary_profile is None and config.getini(DEAF_INI):
        lines += announce(session.profile)
    return [one_line(line) for line in lines]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make accepted problems an expected failure, and attach what the ledger is told."""
    report = yield
    if not isinstance(item, PackageItem):
        return report
    if call.excinfo and isinstance(call.excinfo.value, ProblemsAccepted):
        report.outcome = "skipped"
        report.wasxfail = str(call.excinfo.value)
    if call.excinfo and call.when != "call" and not report.skipped:
        # Only what runtest raises is shown by repr_failure.
        report.longrepr = item.plain_failure(call.excinfo.value)
    if report.skipped and isinstance(report.longrepr, tuple):
        # Not where in our code the skip was raised, but which package it is about.
        report.longrepr = (item.package_node, 1, report.longrepr[2])
    if item.entry is not None and (call.when == "call" or not report.passed):
        setattr(report, ENTRY, item.entry.to_json())
    return report


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Forget a package's facts after its last check."""
    if isinstance(item, PackageItem):
        forget(item, nextitem)


def forget(item: PackageItem, nextitem: pytest.Item | None) -> None:
    """Let go of what an item judged, and of the facts behind the last one of a package.

    Memory and disk hold one package at a time.
    """
    item.forget()
    if nextitem is None or nextitem.parent is not item.parent:
        item.package.examination.facts.close()


@pytest.hookimpl(tryfirst=True)  # before JUnit's file is written
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write SARIF; turn a green run in which something was not verified into a failed one."""
    config = session.config
    state = config.stash.get(SESSION, None)
    if state is None or not state.examinations or hasattr(config, "workerinput"):
        return
    if config.option.binary_sarif:
        from binary_checks.reports import sarif

        path = config.invocation_params.dir / config.option.binary_sarif
        try:
            sarif.write(Path(path), state.ledger, state.checks, state.places)
        except GatherError as error:
            state.complaints.append(cut(one_line(f"--binary-sarif: {error}")))
    stopped = exitstatus not in _ENDED or session.shouldfail or session.shouldstop
    if config.option.collectonly or stopped:
        return  # it is too early to complain of what was not done
    state.complaints.extend(map(one_line, state.ledger.complaints()))
    _complain_in_junit(config, state.complaints)
    if state.complaints and exitstatus != pytest.ExitCode.TESTS_FAILED:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _complain_in_junit(config: pytest.Config, complaints: Iterable[str]) -> None:
    """Give each complaint a failed test case: a suite in which nothing ran must not look green."""
    if not config.getoption("xmlpath", None):
        return
    from _pytest.junitxml import xml_key  # on demand: it brings an XML library

    log = config.stash.get(xml_key, None)
    if log is None:
        return
    for line in complaints:
        node = f"{line.partition(':')[0]}::complaint"
        log.pytest_runtest_logreport(
            pytest.TestReport(node, (node, None, node), {}, "failed", line, "call")
        )


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """The table by family, the reasons of what was not inspected, and the complaints."""
    state = config.stash[SESSION]
    if not state.examinations or config.option.collectonly or exitstatus == _MISUSED:
        return
    terminalreporter.write_sep("=", "binary_checks")
    if state.ledger.entries:
        for line in state.ledger.summary():
            terminalreporter.write_line(one_line(line))
    scribe = config.pluginmanager.get_plugin(SCRIBE)
    for line in scribe.closing_lines() if isinstance(scribe, Scribe) else ():
        terminalreporter.write_line(one_line(line))
    if config.option.binary_static:
        terminalreporter.write_line("runtime checks were left out (--binary-static)")
    if state.profile.left_out:
        terminalreporter.write_line(one_line(say_left_out(state.profile)))
    for line in state.complaints:
        terminalreporter.write_line(line, red=True, bold=True)
