"""What the user sees: outcomes, the summary, the reports and the exit status."""

from __future__ import annotations

import platform
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from binary_checks import __version__
from binary_checks.errors import BinaryChecksError, CheckError, GatherError
from binary_checks.examination.examination import Examination
from binary_checks.examination.facts import Facts
from binary_checks.exit_codes import EMPTY, FIT, MISUSED, PROBLEMS
from binary_checks.lines import cut, one_line
from binary_checks.model import Package, PackageIdentity, RunResult
from binary_checks.model.binary_configuration import BinaryConfiguration, LinkedLibraries
from binary_checks.model.outcomes import choose_exit_code
from binary_checks.model.published import Provenance, PublishedFile
from binary_checks.plugin.failures import ProblemsAccepted, misused
from binary_checks.plugin.held_lists import are_in_doubt, describe_held, say_unavailable
from binary_checks.plugin.items import PackageItem
from binary_checks.plugin.options import DEAF_INI, find_program
from binary_checks.plugin.scribe import NOTED, SCRIBE, WARNED, Noted, Scribe
from binary_checks.plugin.session import SESSION, Session, no_such_check, profile_and_checks
from binary_checks.profile.reading import announce, identify_profile, say_left_out
from binary_checks.reports.explanation import abridge, explain, explain_family, find_page
from binary_checks.reports.family_table import find_differences, summarise
from binary_checks.reports.known_list import say_written
from binary_checks.reports.writing import write_all
from binary_checks.wording.sentences import describe_origin

if TYPE_CHECKING:
    from binary_checks.places import PlaceSettings

_ENDED = (FIT, PROBLEMS, EMPTY)
"""How a run ends that came to its end."""


def answer(config: pytest.Config) -> int:
    """Explain a check or a family. Raises pytest.UsageError for what is neither."""
    name, program = config.option.binary_explain, find_program(config)
    checks = {check.id: check for check in profile_and_checks(config)[1]}
    families = {check.family for check in checks.values()}
    if name not in {*checks, *families}:
        raise misused(no_such_check(name, {*checks, *families}))
    in_full = name in families
    text = explain_family(name, checks.values()) if in_full else explain(checks[name])
    text, page = program.name_options(text), find_page(name)
    sys.stdout.write(f"{text}\n{page}\n" if page else text)
    return FIT


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the profile, and the interpreter that packages run in."""
    session = config.stash[SESSION]
    if not session.examinations:
        return []
    run = _describe_places(session.settings.places)
    run = session.settings.program.name_options(run)
    first = f"binary_checks: {__version__}, profile {session.profile.source}, {run}"
    return [one_line(first), *_list_origins(session), *list_surprises(config, session)]


def _list_origins(session: Session) -> Iterator[str]:
    """Where each published package is from."""
    for package in session.ledger.results():
        if package.provenance is not None:
            origin = describe_origin(package.provenance)
            yield cut(one_line(f"{package.file_name}: {origin}"))


def _describe_places(places: Sequence[PlaceSettings]) -> str:
    """Name where packages run, and the sandbox that they run in."""
    if not places:
        return "static checks only"
    first = places[0]
    where = ", ".join(each.name.label for each in places)
    if len(places) == 1 and not first.name.argument:
        where = str(first.python)
    return f"{where}, {first.sandbox.describe()}"


def list_surprises(config: pytest.Config, session: Session) -> Iterator[str]:
    """What to know before the verdicts: what a profile that nobody named accepts, former ids."""
    profile = session.profile
    lines: list[str] = []
    if config.option.binary_profile is None and config.getini(DEAF_INI):
        lines += announce(profile)
    lines += session.configuration.describe()
    lines += describe_held(session.known_lists, profile)
    yield from (one_line(session.settings.program.name_options(line)) for line in lines)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make accepted problems an expected failure, and attach what the ledger is told."""
    error = call.excinfo.value if call.excinfo else None
    if call.excinfo and isinstance(error, BinaryChecksError) and isinstance(item, PackageItem):
        # pytest spells the source of every frame, 0.1 s of CPU for each check; none is shown.
        call.excinfo.traceback = call.excinfo.traceback[-1:]
    report = yield
    if not isinstance(item, PackageItem):
        return report
    item.seconds += call.duration - _take_installation(item)
    if call.excinfo and isinstance(call.excinfo.value, ProblemsAccepted):
        report.outcome = "skipped"
        report.wasxfail = str(call.excinfo.value)
    if call.excinfo and call.when != "call" and not report.skipped:
        # Only what runtest raises is shown by repr_failure.
        report.longrepr = item.plain_failure(call.excinfo.value)
    if report.skipped and isinstance(report.longrepr, tuple):
        # Not where in our code the skip was raised, but which package it is about.
        report.longrepr = (item.package_node, 1, report.longrepr[2])
    if call.when == "call" or not report.passed:
        entry = item.make_entry(error if report.failed else None)
        if entry is not None:
            entry = replace(entry, seconds=round(item.seconds, 6))
            noted = Noted(node=item.package_node, entry=entry, package=_identify_anew(item))
            setattr(report, NOTED, noted)
    if call.excinfo and isinstance(call.excinfo.value, (CheckError, GatherError)):
        report.when = "setup"  # so that pytest calls it an error: the package has not failed
    return report


def _take_installation(item: PackageItem) -> float:
    """How much longer the installation has taken by now: that is no check's own time."""
    package = item.package
    news = max(0.0, package.install_seconds - package.installing)
    package.installing += news
    return news


def _identify_anew(item: PackageItem) -> PackageIdentity | None:
    """Which package it is, where more is known of that than was told before."""
    ledger, facts = item.state.ledger, item.package.examination.facts
    ran_on = item.package.ran_on
    known = ledger.package(item.package_node)
    roots = item.package.roots or known.roots
    news: dict[str, Any] = {"ran_on": ran_on or known.ran_on, "roots": roots}
    news["installing"] = max(known.installing, round(item.package.installing, 6))
    news |= {"unjudged": item.explain_unjudged(known.unjudged), "unrun": facts.unrun}
    found, expected = facts.object_counts()
    here = found is not None or item.package.examination.source.remote() is None
    if item.state.destinations and not known.is_hashed and here:
        news |= _hash(item)
    if found is None:
        news |= facts.published
    elif known.objects is None:
        package = facts.get(Package)  # which was read: it has counts
        news |= {"name": package.name, "version": package.version, "size": package.size}
        news |= {"objects": found, "expected_objects": expected}
    if found is not None and item.state.destinations:
        news |= _configure(facts, known)
    if known.provenance is None or not known.provenance.sha256_taken:
        news |= {"provenance": _name_provenance(item)}
    identity = replace(known, **news)
    ledger.identify(identity)
    return identity if identity != known else None


def _name_provenance(item: PackageItem) -> Provenance | None:
    """Where it is published, if it is, and how its metadata came."""
    examination = item.package.examination
    remote = examination.source.remote()
    if remote is None:
        return None
    provenance = remote.provenance
    ranged = provenance.metadata != "PEP 658" and examination.facts.has_gathered(PublishedFile)
    return replace(provenance, metadata="ranges") if ranged else provenance


def _configure(facts: Facts, known: PackageIdentity) -> dict[str, Any]:
    """Which build the package is, and how it is linked; for a report alone nothing is installed."""
    news: dict[str, Any] = {}
    with suppress(BinaryChecksError):  # facts that were written without symbols do not tell it
        if known.configuration is None:
            news["configuration"] = facts.get(BinaryConfiguration)
        known_now = facts.knows_linkage and not facts.has_gathered(LinkedLibraries)
        if known_now or known.linked_libraries is None:
            news["linked_libraries"] = facts.linked_libraries
    return news


def _hash(item: PackageItem) -> dict[str, str]:
    """``sha256`` of the file, or ``record_sha256`` of an installed package, as reports name it."""
    try:
        name, _, digest = item.package.examination.source.identity().partition(" ")
    except BinaryChecksError:  # it cannot be read, and the checks say so
        return {}
    return {name: digest}


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Show a check that found warnings alone as such."""
    return ("warned", "w", "WARNED") if getattr(report, WARNED, False) else None


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
        _keep(item.state, item.package.examination)
        item.package.examination.facts.close()


def _keep(state: Session, examination: Examination) -> None:
    facts, source = examination.facts, examination.source
    if facts.object_counts()[0] is None and (source.remote() or source.parts()):
        return  # it was not downloaded, and is not for this
    if state.keeper is not None and state.keeper.lacks(examination.node):
        sha256 = state.ledger.package(examination.node).sha256
        state.keeper.keep(examination.node, examination.facts, sha256)


@pytest.hookimpl(tryfirst=True)  # before JUnit's file is written
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the reports, and end the run with what its outcomes come to."""
    state = session.config.stash.get(SESSION, None)
    if state is None or not state.examinations:
        return
    for examination in state.examinations.values():
        if examination.facts.object_counts()[0] is not None:  # the run was ended at this package
            _keep(state, examination)
    if hasattr(session.config, "workerinput"):
        return
    state.result = write_all(state.destinations, partial(_assemble, session, state, exitstatus))
    if session.config.option.collectonly:
        return
    state.complaints = [*_complain(session, state, exitstatus)]
    _complain_in_junit(session, state.complaints)
    session.exitstatus = state.result.exit_code


def _assemble(
    session: pytest.Session, state: Session, exitstatus: int, lost: tuple[str, ...]
) -> RunResult:
    complaints = (one_line(complaint.line) for complaint in state.ledger.complaints())
    lines = (*state.misnamed, *lost, *_doubt(state), *complaints)
    remarks = map(one_line, _remark(session.config, state, lost))
    program = state.settings.program
    return RunResult(
        exit_code=_conclude(session, state, exitstatus, lost=bool(lost)),
        profile=identify_profile(state.profile),
        versions={
            "binary_checks": __version__,
            "pytest": pytest.__version__,
            "python": platform.python_version(),
        },
        ended=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        places=tuple(one_line(each.name.label) for each in state.settings.places),
        selected=one_line(" ".join(_name_selection(session.config, state))),
        complaints=tuple(map(program.name_options, lines)),
        known_lists=tuple(each.identity for each in state.known_lists),
        remarks=tuple(map(program.name_options, remarks)),
        checks=tuple(abridge(each, program) for each in state.settings.checks),
        packages=state.ledger.results(dict(_find_stopped(session, state, exitstatus))),
        facts={} if state.keeper is None else state.keeper.find(_nodes(state)),
        program=program,
    )


def _doubt(state: Session) -> list[str]:
    """Why none of the problems found counts: a list that may accept them could not be had."""
    lines = [*say_unavailable(state.known_lists)]
    return lines if lines and are_in_doubt(state.ledger.results()) else []


def _name_selection(config: pytest.Config, state: Session) -> Iterable[str]:
    """What chose among the checks of a family; ``-m FAMILY`` chooses among families."""
    if config.option.keyword:
        yield f"-k {config.option.keyword}"
    yield from (f"--deselect {each}" for each in config.option.deselect or ())
    asked = frozenset[str]().union(*(each.asked for each in state.examinations.values()))
    yield from (f"PACKAGE::{each}" for each in sorted(asked))


def _find_stopped(
    session: pytest.Session, state: Session, exitstatus: int
) -> Iterable[tuple[str, str]]:
    """The packages whose checks did not all come to their end, and why."""
    scribe = session.config.pluginmanager.get_plugin(SCRIBE)
    early = str(session.shouldfail or session.shouldstop or "the run was interrupted")
    for node in _nodes(state):
        begun = isinstance(scribe, Scribe) and not scribe.is_over(node)
        if begun or (exitstatus not in _ENDED and not state.ledger.result(node).entries):
            yield node, one_line(early)


def _nodes(state: Session) -> Iterable[str]:
    return (each.node for each in state.examinations.values())


def _conclude(session: pytest.Session, state: Session, exitstatus: int, *, lost: bool) -> int:
    """The first that holds of: misused, problems, a bug of ours, something else broke, all else."""
    scribe = session.config.pluginmanager.get_plugin(SCRIBE)
    others_failed = isinstance(scribe, Scribe) and scribe.others_failed
    if exitstatus not in _ENDED or session.config.option.collectonly or others_failed:
        return exitstatus
    if state.misnamed:
        return MISUSED
    outcomes = state.ledger.outcomes()
    excused = {each.excused for each in state.ledger.complaints()}
    unfit = False in excused
    return (
        choose_exit_code(
            outcomes,
            unfit=unfit and not _stopped(session, exitstatus),
            in_doubt=bool(_doubt(state)),
            broke=lost or True in excused,
        )
        or exitstatus
    )


def _stopped(session: pytest.Session, exitstatus: int) -> bool:
    """Whether it is too early to complain of what was not done."""
    return exitstatus not in _ENDED or bool(session.shouldfail or session.shouldstop)


def _complain(session: pytest.Session, state: Session, exitstatus: int) -> Iterable[str]:
    """The complaints that are shown: of reports, and where the run came to its end of packages."""
    assert state.result is not None
    name = state.settings.program.name_options
    early = {name(one_line(each.line)) for each in state.ledger.complaints()}
    shown = not _stopped(session, exitstatus)
    return (line for line in state.result.complaints if shown or line not in early)


def _remark(config: pytest.Config, state: Session, lost: tuple[str, ...]) -> Iterable[str]:
    """What was left out of the run on purpose, and what becomes of its problems."""
    written = config.option.binary_write_known
    if written and not any(line.startswith("--binary-write-known:") for line in lost):
        yield say_written(state.ledger.results(), written)
    yield from find_differences(state.ledger.results())
    if config.option.binary_static:
        yield "runtime checks were left out (--binary-static)"
    if state.profile.left_out:
        yield say_left_out(state.profile)
    if not _doubt(state):
        yield from say_unavailable(state.known_lists)


def _complain_in_junit(session: pytest.Session, complaints: Iterable[str]) -> None:
    """Give each complaint a failed test case: a suite in which nothing ran must not look green.

    It goes to all that listens to reports, but to those that would count or show it once more.
    """
    plugins = session.config.pluginmanager
    if not session.config.getoption("xmlpath", None):
        return
    known = [session, *map(plugins.get_plugin, ("terminalreporter", SCRIBE))]
    log = plugins.subset_hook_caller("pytest_runtest_logreport", remove_plugins=known)
    for line in complaints:
        node = f"{line.partition(':')[0]}::complaint"
        log(report=pytest.TestReport(node, (node, None, node), {}, "failed", line, "call"))


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """The table by family, the reasons of what was not inspected, and the complaints."""
    state = config.stash[SESSION]
    run = state.result
    if run is None or config.option.collectonly:
        return
    if exitstatus == MISUSED and not state.misnamed:
        return
    terminalreporter.write_sep("=", "binary_checks")
    for line in summarise(run):
        terminalreporter.write_line(one_line(line))
    scribe = config.pluginmanager.get_plugin(SCRIBE)
    for line in scribe.closing_lines() if isinstance(scribe, Scribe) else ():
        terminalreporter.write_line(one_line(line))
    for line in run.remarks:
        terminalreporter.write_line(line)
    for line in state.complaints:
        terminalreporter.write_line(line, red=True, bold=True)
