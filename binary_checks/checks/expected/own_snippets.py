"""Whether the profile's own Python snippets succeed with the installed package."""

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
    """A Python snippet of the profile fails, or prints something unexpected.

    ``code`` in the profile's table ``[probes.snippets]`` has programs by name. Each runs in a fresh
    process in an empty folder, with the package installed; it fails when it raises, exits with a
    status other than 0, crashes, exceeds the profile's ``timeout``, ends its process badly, or
    writes something else to ``sys.stdout`` than the option ``prints`` gives for it. It may call
    ``unavailable("why")`` where something that it needs is missing: it is then not inspected.
    ``only`` in that table limits snippets to some systems, as globs on ``linux-x86_64``,
    ``macos-aarch64``, ``windows-x86_64``. ``requires`` are requirements in addition to the
    package's: with any, the snippets get an environment of their own; for an installed package,
    they use the distributions installed there. A profile that extends another one removes a snippet
    by setting its code to "".

    Why: a build that lost its BLAS, its threads or its version imports like a good one.
    Fix: run the quoted line where the package is installed; the build's configuration says what was
    found and what was not.
    Level: the project itself says what must work.
    """
    if stray := sorted((prints.keys() | asked.only.keys()) - asked.code.keys()):
        yield NotInspected(sentence=f"the profile has no snippet {name_first(stray)}")
    if not (report.runs or report.elsewhere):
        yield NotInspected(sentence="the profile has no snippet: [probes.snippets] code is empty")
    elif not report.runs:
        raise NotApplicable(f"no snippet of the profile is for {report.system}")
    for each in report.beside:
        yield Note(sentence=f"the snippets run with {each}, as it is installed")
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
        yield Problem(sentence=f"snippet {name} is done, but its process then {describe_end(step)}")
