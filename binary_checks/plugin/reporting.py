"""Reporting: outcomes, the summary, the reports and the exit status."""

from __future__ import annotations

import json
import platform
import re
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from binary_checks import __version__
from binary_checks.documents.json_values import decoder, encode, read_json
from binary_checks.errors import (
    EMPTY,
    FIT,
    MISUSED,
    PROBLEMS,
    BinaryChecksError,
    CheckError,
    GatherError,
    ProfileError,
)
from binary_checks.examination.examination import Examination
from binary_checks.examination.facts import Facts
from binary_checks.examination.judging import Verdict
from binary_checks.model import (
    BinaryConfiguration,
    Entry,
    LinkedLibraries,
    Outcome,
    Package,
    PackageIdentity,
    Provenance,
    PublishedFile,
    RunResult,
    choose_exit_code,
)
from binary_checks.plugin.failures import (
    FailureText,
    ProblemsAccepted,
    count_hidden,
    describe,
    plain_lines,
    usage_error,
)
from binary_checks.plugin.items import PackageItem
from binary_checks.plugin.options import COMMAND_INI, find_program
from binary_checks.plugin.session import (
    SESSION,
    Session,
    are_in_doubt,
    describe_known_lists,
    list_unavailable,
    list_unexplained,
    no_such_check,
    profile_and_checks,
)
from binary_checks.profile import announce, format_left_out, identify_profile
from binary_checks.reports.explanation import (
    abridge,
    advice,
    explain,
    explain_family,
    find_page,
    read_documentation,
)
from binary_checks.reports.family_table import find_differences, summarise
from binary_checks.reports.known_list import describe_written
from binary_checks.reports.ledger import Ledger
from binary_checks.reports.writing import write_all
from binary_checks.safe_text import MOST, MOST_OF_A_RUN, cut, one_line
from binary_checks.wording.problem_lines import accepted_lines, group_problems, problem_lines
from binary_checks.wording.sentences import describe_origin

if TYPE_CHECKING:
    from binary_checks.places import PlaceSettings


_ENDED = (FIT, PROBLEMS, EMPTY)
"""Exit codes of a run that was not stopped early."""


def answer(config: pytest.Config) -> int:
    """Print the explanation of a check or family. Raises pytest.UsageError for an unknown name."""
    name, program = config.option.binary_explain, find_program(config)
    try:
        checks = {check.id: check for check in profile_and_checks(config)[1]}
    except ProfileError as error:
        raise usage_error(str(error)) from None
    families = {check.family for check in checks.values()}
    if name not in {*checks, *families}:
        raise usage_error(no_such_check(name, {*checks, *families}))
    in_full = name in families
    text = explain_family(name, checks.values()) if in_full else explain(checks[name])
    text, page = program.name_options(text), find_page(name)
    sys.stdout.write(f"{text}\n{page}\n" if page else text)
    return FIT


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the profile, and the interpreter in which packages run."""
    session = config.stash[SESSION]
    if not session.examinations:
        return []
    run = _describe_places(session.settings.places)
    run = session.settings.program.name_options(run)
    first = f"binary_checks: {__version__}, profile {session.profile.source}, {run}"
    origins = (
        cut(one_line(f"{package.file_name}: {describe_origin(package.provenance)}"))
        for package in session.ledger.results()
        if package.provenance is not None
    )
    return [one_line(first), *origins, *iter_remarks_before(config, session)]


def _describe_places(places: Sequence[PlaceSettings]) -> str:
    """Return where packages run, and in which sandbox."""
    if not places:
        return "static checks only"
    first = places[0]
    where = ", ".join(each.name.label for each in places)
    if len(places) == 1 and not first.name.argument:
        where = str(first.python)
    return f"{where}, {first.sandbox.describe()}"


def iter_remarks_before(config: pytest.Config, session: Session) -> Iterator[str]:
    """Yield the lines before the verdicts: on a found profile, stated values and lists."""
    profile = session.profile
    lines: list[str] = []
    if config.option.binary_profile is None and config.getini(COMMAND_INI):
        lines += announce(profile)
    lines += session.configuration.describe()
    lines += describe_known_lists(session.known_lists, profile)
    yield from (one_line(session.settings.program.name_options(line)) for line in lines)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report accepted problems as an expected failure, and attach the entry for the ledger."""
    error = call.excinfo.value if call.excinfo else None
    if call.excinfo and isinstance(error, BinaryChecksError) and isinstance(item, PackageItem):
        # pytest would read the source of every frame, 0.1 s of CPU for each check; none is shown.
        call.excinfo.traceback = call.excinfo.traceback[-1:]
    report = yield
    if not isinstance(item, PackageItem):
        return report
    # Installing since the last item is not part of the check.
    package, everywhere = item.package, item.package.examination.facts.everywhere
    installing = max(package.installing, sum(each.install_seconds for each in everywhere))
    item.seconds += call.duration - (installing - package.installing)
    package.installing = installing
    if call.excinfo and isinstance(call.excinfo.value, ProblemsAccepted):
        report.outcome = "skipped"
        report.wasxfail = str(call.excinfo.value)
    if call.excinfo and call.when != "call" and not report.skipped:
        # pytest calls repr_failure only for exceptions from runtest.
        report.longrepr = item.plain_failure(call.excinfo.value)
    if report.skipped and isinstance(report.longrepr, tuple):
        # Name the package instead of the line in our code that raised the exception.
        report.longrepr = (item.package_node, 1, report.longrepr[2])
    if call.when == "call" or not report.passed:
        identity = None
        try:
            identity = _update_identity(item)
        except pytest.fail.Exception as late:  # pytest-timeout may raise it anywhere
            error, item.verdict = late, None
            report.outcome, report.longrepr = "failed", item.plain_failure(late)
        entry = item.make_entry(error if report.failed else None)
        if entry is not None:
            entry = replace(entry, seconds=round(item.seconds, 6))
            noted = ItemResult(node=item.package_node, entry=entry, package=identity)
            setattr(report, ITEM_RESULT, noted)
    if isinstance(error, (CheckError, GatherError, pytest.fail.Exception)):
        report.when = "setup"  # pytest then counts an error instead of a failure of the package
    return report


def _update_identity(item: PackageItem) -> PackageIdentity | None:
    """Return the package's identity if it has more facts than in the ledger, else None."""
    ledger, facts = item.state.ledger, item.package.examination.facts
    known = ledger.package(item.package_node)
    news: dict[str, Any] = {
        "ran_on": " and ".join(_each_once(each.ran_on for each in facts.everywhere))
        or known.ran_on,
        "operating_systems": _each_once(each.operating_system for each in facts.everywhere)
        or known.operating_systems,
        "roots": _each_once(each.root for each in facts.everywhere) or known.roots,
        "installing": max(known.installing, round(item.package.installing, 6)),
        "unjudged": item.explain_unjudged(known.unjudged),
        "unrun": facts.unrun,
    }
    found, expected = facts.object_counts()
    here = found is not None or item.package.examination.source.remote() is None
    if item.state.destinations and not (known.sha256 or known.record_sha256) and here:
        news |= _hash(item)
    if found is None:
        news |= facts.published
    elif known.objects is None:
        package = facts.get(Package)  # the counts show that the package was read
        news |= {"name": package.name, "version": package.version, "size": package.size}
        news |= {"objects": found, "expected_objects": expected}
    if found is not None and item.state.destinations:
        news |= _configure(facts, known)
    if known.provenance is None or not known.provenance.sha256_taken:
        news |= {"provenance": _name_provenance(item)}
    identity = replace(known, **news)
    ledger.identify(identity)
    return identity if identity != known else None


def _each_once(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, found)))


def _name_provenance(item: PackageItem) -> Provenance | None:
    """Return the package's origin and how its metadata was fetched; None for a local package."""
    examination = item.package.examination
    remote = examination.source.remote()
    if remote is None:
        return None
    provenance = remote.provenance
    ranged = provenance.metadata != "PEP 658" and examination.facts.has_gathered(PublishedFile)
    return replace(provenance, metadata="ranges") if ranged else provenance


def _configure(facts: Facts, known: PackageIdentity) -> dict[str, Any]:
    """Return the package's build and linkage, without installing anything just for a report."""
    news: dict[str, Any] = {}
    with suppress(BinaryChecksError):  # facts documents without symbols lack these values
        if known.configuration is None:
            news["configuration"] = facts.get(BinaryConfiguration)
        known_now = facts.knows_linkage and not facts.has_gathered(LinkedLibraries)
        if known_now or known.linked_libraries is None:
            news["linked_libraries"] = facts.linked_libraries
    return news


def _hash(item: PackageItem) -> dict[str, str]:
    """Return the hash with its key in reports: ``sha256``, or ``record_sha256`` if installed."""
    try:
        name, _, digest = item.package.examination.source.identity().partition(" ")
    except BinaryChecksError:  # the package cannot be read; checks report this
        return {}
    return {name: digest}


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Mark a check that found only warnings."""
    return ("warned", "w", "WARNED") if getattr(report, WARNED, False) else None


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Release an item's judged facts and, after a package's last item, the package's facts.

    Memory and disk then contain the facts of one package at a time.
    """
    if not isinstance(item, PackageItem):
        return
    item.forget()
    if nextitem is None or nextitem.parent is not item.parent:
        examination = item.package.examination
        _keep(item.state, examination)
        if examination.has_failed and item.config.option.binary_keep:
            examination.facts.keep_places()
        examination.facts.close()


def _keep(state: Session, examination: Examination) -> None:
    facts, source = examination.facts, examination.source
    if facts.object_counts()[0] is None and (source.remote() or source.parts()):
        return  # the package was not downloaded, and is not downloaded only for a hash
    if state.keeper is not None and state.keeper.lacks(examination.node):
        sha256 = state.ledger.package(examination.node).sha256
        state.keeper.keep(examination.node, examination.facts, sha256)


@pytest.hookimpl(tryfirst=True)  # before JUnit's file is written
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the reports, and set the exit status."""
    state = session.config.stash.get(SESSION, None)
    if state is None or not state.examinations:
        return
    for examination in state.examinations.values():
        if examination.facts.object_counts()[0] is not None:  # the run stopped during this package
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
    session: pytest.Session, state: Session, exitstatus: int, failures: tuple[str, ...]
) -> RunResult:
    complaints = (one_line(complaint.line) for complaint in state.ledger.complaints())
    lines = (*state.misnamed, *failures, *_explain_doubt(state), *complaints)
    remarks = map(one_line, _remark(session.config, state, failures))
    program = state.settings.program
    return RunResult(
        exit_code=_choose_exit_code(session, state, exitstatus, failed=bool(failures)),
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
        facts={}
        if state.keeper is None
        else state.keeper.find(e.node for e in state.run.examinations),
        program=program,
    )


def _explain_doubt(state: Session) -> list[str]:
    """Return a line for each unavailable list if these may accept every problem, else []."""
    lines = [*list_unavailable(state.known_lists)]
    return lines if lines and are_in_doubt(state.ledger.results()) else []


def _name_selection(config: pytest.Config, state: Session) -> Iterable[str]:
    """Yield the options that select single checks; ``-m FAMILY`` selects whole families."""
    if config.option.keyword:
        yield f"-k {config.option.keyword}"
    yield from (f"--deselect {each}" for each in config.option.deselect or ())
    asked = frozenset[str]().union(*(each.asked for each in state.examinations.values()))
    yield from (f"PACKAGE::{each}" for each in sorted(asked))


def _find_stopped(
    session: pytest.Session, state: Session, exitstatus: int
) -> Iterable[tuple[str, str]]:
    """Yield the packages whose checks did not all end, each with the reason."""
    collector = session.config.pluginmanager.get_plugin(RESULT_COLLECTOR)
    early = str(session.shouldfail or session.shouldstop or "the run was interrupted")
    for node in (each.node for each in state.run.examinations):
        begun = isinstance(collector, ResultCollector) and not collector.is_over(node)
        if begun or (exitstatus not in _ENDED and not state.ledger.result(node).entries):
            yield node, one_line(early)


def _choose_exit_code(
    session: pytest.Session, state: Session, exitstatus: int, *, failed: bool
) -> int:
    """Return the exit code. Precedence: usage errors, problems, bugs, other faults."""
    collector = session.config.pluginmanager.get_plugin(RESULT_COLLECTOR)
    others_failed = isinstance(collector, ResultCollector) and collector.others_failed
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
            in_doubt=bool(_explain_doubt(state)),
            broke=failed or True in excused,
        )
        or exitstatus
    )


def _stopped(session: pytest.Session, exitstatus: int) -> bool:
    """Return whether the run stopped early; then checks that did not run are not a fault."""
    return exitstatus not in _ENDED or bool(session.shouldfail or session.shouldstop)


def _complain(session: pytest.Session, state: Session, exitstatus: int) -> Iterable[str]:
    """Yield the complaints that are shown; if the run stopped early, omit those about packages."""
    assert state.result is not None
    name = state.settings.program.name_options
    early = {name(one_line(each.line)) for each in state.ledger.complaints()}
    shown = not _stopped(session, exitstatus)
    return (line for line in state.result.complaints if shown or line not in early)


def _remark(config: pytest.Config, state: Session, failures: tuple[str, ...]) -> Iterable[str]:
    """Yield remarks: a written list, differences between places, and parts that were left out."""
    written = config.option.binary_write_known
    if written and not any(line.startswith("--binary-write-known:") for line in failures):
        yield describe_written(state.ledger.results(), written)
    yield from find_differences(state.ledger.results())
    if config.option.binary_static:
        yield "runtime checks were left out (--binary-static)"
    chosen = [*_name_selection(config, state)]
    named = set(re.findall(r"\w+", config.option.markexpr or ""))
    if not named.isdisjoint(each.family for each in state.settings.checks):
        chosen.insert(0, f"-m {config.option.markexpr}")
    if chosen:
        yield f"only {' '.join(chosen)} was judged"
    if state.profile.left_out:
        yield format_left_out(state.profile)
    if not _explain_doubt(state):
        yield from list_unavailable(state.known_lists)
    yield from list_unexplained(state.known_lists)


def _complain_in_junit(session: pytest.Session, complaints: Iterable[str]) -> None:
    """Add a failed test case for each complaint: a suite without results must not appear to pass.

    All plugins that process reports receive the test case, except those that would count or show
    the complaint again.
    """
    plugins = session.config.pluginmanager
    if not session.config.getoption("xmlpath", None):
        return
    known = [session, *map(plugins.get_plugin, ("terminalreporter", RESULT_COLLECTOR))]
    log = plugins.subset_hook_caller("pytest_runtest_logreport", remove_plugins=known)
    for line in complaints:
        node = f"{line.partition(':')[0]}::complaint"
        log(report=pytest.TestReport(node, (node, None, node), {}, "failed", line, "call"))


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Print the table by family, the reasons for missing inspections, and the complaints."""
    state = config.stash[SESSION]
    run = state.result
    if run is None or config.option.collectonly:
        return
    if exitstatus == MISUSED and not state.misnamed:
        return
    terminalreporter.write_sep("=", "binary_checks")
    for line in summarise(run):
        terminalreporter.write_line(one_line(line))
    collector = config.pluginmanager.get_plugin(RESULT_COLLECTOR)
    for line in collector.iter_closing_lines() if isinstance(collector, ResultCollector) else ():
        terminalreporter.write_line(one_line(line))
    for line in run.remarks:
        terminalreporter.write_line(line)
    for line in state.complaints:
        terminalreporter.write_line(line, red=True, bold=True)


# The results that items attach to reports, collected in the controller; a terminal shows a limited
# number.

RESULT_COLLECTOR = "binary_checks_result_collector"
"""The registered instance's name as a plugin."""
ITEM_RESULT = "binary_checks_item_result"
"""The report attribute that carries an item's result from a worker to the controller."""
WARNED = "binary_checks_warned"
"""The report attribute of a check that found only warnings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemResult:
    """An item's entry, and the package's identity if it has new facts."""

    node: str  # id of the package
    entry: Entry
    package: PackageIdentity | None = None

    def to_text(self) -> str:
        """Return the result as JSON, with the entry as in result documents."""
        return json.dumps(encode(self))

    @staticmethod
    def from_text(text: str) -> ItemResult:
        """Decode a text from ``to_text``."""
        noted: ItemResult = decoder(ItemResult)(read_json(text))
        return noted


class ResultCollector:
    """Keeps the ledger of the run in the process that receives all reports."""

    def __init__(self, config: pytest.Config, ledger: Ledger) -> None:
        self._config = config
        self.ledger = ledger
        self.others_failed = False  # whether a test that is not one of our checks failed
        self._left = MOST_OF_A_RUN  # problems that may still be shown
        self._hidden = 0  # problems for which no line was shown
        # properties for JUnit's file, by node id
        self._warned: dict[str, list[tuple[str, str]]] = {}
        self._awaited = Counter[str]()  # checks that have not ended, by package

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the checks of each package."""
        self._await(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        """Count the checks that the first worker collected: the controller collects nothing."""
        if not self._awaited:
            self._await(ids)

    def _await(self, ids: Iterable[str]) -> None:
        found = map(self._config.stash[SESSION].find, ids)
        self._awaited.update(examination.node for examination in found if examination)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Count the check as ended, before other plugins call `is_over`."""
        if examination := self._config.stash[SESSION].find(nodeid):
            self._awaited[examination.node] -= 1

    def is_over(self, node: str) -> bool:
        """Return whether all checks of the package have ended."""
        return self._awaited[node] <= 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, None, None]:
        """Store an item's result. JUnit's file shows every problem, a terminal only some."""
        if hasattr(self._config, "workerinput"):  # the controller receives the report later
            return (yield)
        noted = vars(report).pop(ITEM_RESULT, None)
        found = None if noted is None else self._add_result(noted)
        if (
            found is not None
            and len(found.problems) > MOST
            and self._config.getoption("xmlpath", None)
        ):
            report.longrepr = self._format(found, None)
        if noted is not None and noted.entry.outcome is Outcome.WARNED:
            setattr(report, WARNED, True)
        if report.when == "teardown":
            report.user_properties += self._warned.pop(report.nodeid, [])
        yield
        if report.failed and noted is None:
            self.others_failed = True
            self._note_crash(report)
        if found is not None and (found.warnings or found.accepted):
            self._warned[report.nodeid] = _list_properties(found)
        if found is not None and found.problems:
            shown = min(MOST, self._left)
            if hidden := count_hidden(found, shown):
                report.longrepr = self._format(found, shown)
            self._left -= len(group_problems(found.problems)) - hidden
            self._hidden += hidden
        failure: Any = report.longrepr  # the declared type lacks the classes of plugins
        if found is not None and isinstance(failure, FailureText):
            # JUnit's file has its line already; pytest's short summary itself adds check and
            # package.
            failure = failure.abridge(f"{found.check}: {found.package}: ")
            report.longrepr = failure

    def _note_crash(self, report: pytest.TestReport) -> None:
        """Add an entry for a check whose worker died."""
        state = self._config.stash[SESSION]
        examination, name = state.find(report.nodeid), report.nodeid.rpartition("::")[2]
        known_as, _, place = name.removesuffix("]").partition("[")
        check = next((each for each in state.settings.checks if each.id == known_as), None)
        if check is None or examination is None:
            return
        known = self.ledger.result(examination.node).entries
        if all(entry.item != name for entry in known):  # xdist retries the check in other workers
            reason = one_line(str(report.longrepr))
            broken = Entry(
                check=check.id,
                place=place,
                family=check.family,
                outcome=Outcome.BROKEN,
                reason=reason,
            )
            self.ledger.add(examination.node, broken)

    def _add_result(self, noted: ItemResult) -> Verdict:
        if noted.package is not None:
            self.ledger.identify(noted.package)
        self.ledger.add(noted.node, noted.entry)
        file_name = self.ledger.package(noted.node).file_name
        return Verdict(package=file_name, **noted.entry.result())

    def _format(self, verdict: Verdict, most: int | None) -> Any:
        settings = self._config.stash[SESSION].settings
        known = (
            read_documentation(check) for check in settings.checks if check.id == verdict.check
        )
        remedy = next(map(advice, known), ())
        return plain_lines(describe(verdict, remedy, settings.program, most), verdict.package)

    def iter_closing_lines(self) -> Iterator[str]:
        """Yield a line on where the user finds all problems, if some were not shown."""
        if self._hidden:
            reports = self._config.option.binary_report
            asked = (each.partition(":")[2] for each in reports if each.startswith("sarif:"))
            report = next(asked, "")
            again = "the same command with --binary-report sarif:problems.sarif writes all"
            again = self._config.stash[SESSION].settings.program.name_options(again)
            where = f"all are in {report}" if report else again
            yield f"{self._hidden:,} problems are not shown here; {where}"


def _list_properties(found: Verdict) -> list[tuple[str, str]]:
    lines = problem_lines(found.check, found.package, found.warnings)
    accepted = accepted_lines(found.check, found.package, found.accepted)
    return [*(("warning", line) for line in lines), *(("accepted", line) for line in accepted)]
