"""Whether what a profile has Python say in the installed package holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.model import Ending, Finding, Note, NotInspected, Problem
from binary_checks.model.probes import SnippetReport, SnippetRun
from binary_checks.model.requests import SnippetRequest
from binary_checks.wording.phrases import name_first
from binary_checks.wording.step_texts import describe_end


@check(enabled=False)
def snippet_fails(
    report: SnippetReport, asked: SnippetRequest, *, prints: Mapping[str, str] = {}
) -> Iterator[Finding]:
    """A few lines of Python that the profile gives do not do what it says.

    ``code`` in the profile's table ``[probes.snippets]`` has programs by name. Each is run in a
    fresh process in an empty folder, with the package installed; it fails when it raises, exits
    with another status than 0, crashes, is not done in the profile's ``timeout``, ends its process
    badly, or when the option ``prints`` names it and it wrote something else to ``sys.stdout``. It
    may call ``unavailable("why")`` where something that it needs is not there: that is no pass.
    ``only`` in that table names the systems that some are for, as globs on ``linux-x86_64``,
    ``macos-aarch64``, ``windows-x86_64``. ``requires`` are requirements that the package has not
    itself: with any, the snippets get an environment of their own; beside an installed package,
    what is installed there must do. A profile that extends another one takes a snippet away by
    giving it "" for its code.

    Why: a build that lost its BLAS, its threads or its version imports as well as a good one.
    Fix: run the line that is quoted where the package is installed; the build's configuration says
    what was found and what was not.
    """
    if stray := sorted((prints.keys() | asked.only.keys()) - asked.code.keys()):
        yield NotInspected(sentence=f"the profile has no snippet {name_first(stray)}")
    if not (report.runs or report.elsewhere):
        yield NotInspected(sentence="the profile has no snippet: [probes.snippets] code is empty")
    elif not report.runs:
        raise NotApplicable(f"no snippet of the profile is for {report.system}")
    for each in report.beside:
        yield Note(sentence=f"the snippets run beside {each}, as it is installed")
    for name in report.elsewhere:
        yield Note(sentence=f"snippet {name} is for {' and '.join(asked.only.get(name, ()))} only")
    for run in report.runs:
        yield from _judge(run, prints.get(run.step.name))


def _judge(run: SnippetRun, expected: str | None) -> Iterator[Finding]:
    name, step = run.step.name, run.step
    if run.unavailable:
        yield NotInspected(sentence=f"snippet {name}: {run.unavailable}")
    elif step.outcome is not Ending.OK and not step.finished:
        yield Problem(sentence=f"snippet {name} {describe_end(step)}")
    elif expected is not None and run.printed != expected.strip():
        wanted = f"where {expected.strip()!r} is expected"
        yield Problem(sentence=f"snippet {name} prints {run.printed[:500]!r}, {wanted}")
    if step.finished:
        yield Problem(sentence=f"snippet {name} is done, and its process then {describe_end(step)}")
