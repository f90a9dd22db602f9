"""Runs the tests that a conda package carries, each in its own process beside the package."""

from __future__ import annotations

from binary_checks.declaring import gathers
from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.model.packages import CondaPackage
from binary_checks.model.places import Conditions, Place
from binary_checks.model.probes import EmbeddedTestReport, SnippetRun
from binary_checks.model.protocols import Source
from binary_checks.probes.conda_tests.embedded import FOLDER, LIST, EmbeddedTest, find_tests
from binary_checks.probes.run_snippet.reader import read_run
from binary_checks.probes.shared_time import SharedTime

_LONGEST = 1 << 20  # bytes of a file of tests
_MOST = 200  # files


@gathers(EmbeddedTestReport)
def run_embedded_tests(place: Place, package: CondaPackage, source: Source) -> EmbeddedTestReport:
    """Run every test; those with requirements of their own in a prefix of their own.

    Raises NotApplicable where the package carries none, Unavailable where it is not installed.
    """
    tests = find_tests(_read(source))
    if not tests:
        raise NotApplicable("the package carries no tests")
    place.demand(package)
    runs: list[SnippetRun] = []
    untried = [(test.name, test.untried) for test in tests if test.untried]
    left = SharedTime(place.timeout)
    for test in tests:
        if not test.untried and left.spent:
            untried.append((test.name, left.spent))
        elif not test.untried:
            try:
                runs.append(_run_apart(place, package, test))
            except Unavailable as error:
                untried.append((test.name, str(error)))
    return EmbeddedTestReport(
        python=place.target.name, runs=tuple(runs), untried=tuple(sorted(untried))
    )


def _run_apart(place: Place, package: CondaPackage, test: EmbeddedTest) -> SnippetRun:
    if not test.requires:
        return _run(place, test)
    with place.apart(test.requires) as own:
        own.demand(package)
        return _run(own, test)


def _run(place: Place, test: EmbeddedTest) -> SnippetRun:
    result = place.run("run_snippet", {"code": test.code}, conditions=Conditions(bytecode=True))
    return read_run(test.name, result, place)


def _read(source: Source) -> dict[str, bytes]:
    """The files that have to do with tests, by their names in the archive."""
    tree = source.open()
    try:
        wanted = [
            entry
            for entry in tree.entries()
            if (entry.name.startswith(FOLDER) or entry.name == LIST)
            and not entry.faults
            and 0 < entry.size <= _LONGEST
        ]
        return {entry.name: b"".join(pieces) for entry, pieces in tree.contents(wanted[:_MOST])}
    finally:
        tree.close()
