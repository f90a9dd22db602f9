"""Whether the tests that a package carries pass in a clean prefix."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.model import Ending, Finding, NotInspected, Problem
from binary_checks.model.probes import EmbeddedTestReport
from binary_checks.wording.step_texts import describe_end

_OFFLINE = re.compile(
    r"(?i)name or service not known|temporary failure in name resolution|network is unreachable|"
    r"could not resolve host|getaddrinfo failed|gaierror|max retries exceeded|no route to host"
)


@check
def embedded_test_fails(report: EmbeddedTestReport) -> Iterator[Finding]:
    """A test that the package carries fails where it is installed.

    conda-build puts the ``test`` section of a recipe into ``info/test``, rattler-build into
    ``info/tests``. What runs are scripts in Python and in the shell, each in an empty folder in the
    sandbox, with what the tests require installed beside the package. One that fails for want of
    the network is not inspected.

    Why: its own makers say that this must work; conda's own tools ran it in the environment of the
    build, which has more than users have.
    Fix: see the last line of the test's output, and run it in a fresh environment (``conda build
    --test PACKAGE``, ``rattler-build test --package-file PACKAGE``).
    Level: users cannot use what the project itself tests.
    """
    for name, reason in report.untried:
        yield NotInspected(sentence=f"{name}: {reason}")
    for run in report.runs:
        step = run.step
        if step.outcome is Ending.OK:
            continue
        if _OFFLINE.search(f"{step.detail}\n{step.stderr}"):
            yield NotInspected(sentence=f"{step.name} needs the network: {step.detail}")
            continue
        done = " is done, but its process then" if step.finished else ""
        yield Problem(sentence=f"{step.name}{done} {describe_end(step)}")
