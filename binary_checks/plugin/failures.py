"""The form in which problems are passed to pytest and shown: one line each, without indentation."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pytest

from binary_checks.errors import BinaryChecksError, ReadersDisagree
from binary_checks.examination.judging import Verdict
from binary_checks.model import Problem
from binary_checks.options import Program
from binary_checks.profile import is_follow_up
from binary_checks.safe_text import MOST, cut, one_line
from binary_checks.wording.problem_lines import finding_line, group_problems


@dataclass(frozen=True, kw_only=True, slots=True)
class Crash:
    """The text of a failure in pytest's short summary, ``--tb=line`` and JUnit's message."""

    path: str
    lineno: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.lineno}: {self.message}"


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureText:
    """Text without indentation, in the form that pytest expects from ``repr_failure``.

    An xdist worker can send only the text, from which `restore` makes a new object.
    """

    text: str
    reprcrash: Crash

    def abridge(self, beginning: str) -> FailureText:
        """Return a copy whose line in the short summary lacks this beginning."""
        message = self.reprcrash.message.removeprefix(one_line(beginning))
        return replace(self, reprcrash=replace(self.reprcrash, message=message))

    def toterminal(self, writer: Any) -> None:
        """Write the text unchanged."""
        writer.write(f"{self.text}\n")

    def __str__(self) -> str:
        return self.text


class ProblemsFound(Exception):
    """The package has unaccepted problems; the text has a line for each."""


class ProblemsAccepted(Exception):
    """All problems found are accepted in the profile; the text has the reasons."""


def describe(
    verdict: Verdict, advice: Iterable[str], program: Program, most: int | None = MOST
) -> str:
    """Return at most ``most`` problems, one line each, and what to do about them.

    With ``most`` None, return all of them without shortening lines.
    """
    return "\n".join(_describe(verdict, advice, program, most))


def _describe(
    verdict: Verdict, advice: Iterable[str], program: Program, most: int | None
) -> Iterator[str]:
    lines = verdict.lines()
    yield from lines if most is None else map(cut, islice(lines, most))
    if hidden := count_hidden(verdict, most):
        where = program.name_options("--binary-report sarif:FILE")
        yield f"  and {hidden:,} more, in the report ({where})"
    if verdict.accepted:
        yield f"{len(verdict.accepted):,} accepted"
    if most != 0 and not all(map(is_follow_up, verdict.problems)):
        yield from map(program.name_options, advice)


def count_hidden(verdict: Verdict, most: int | None = MOST) -> int:
    """Return how many lines are not shown."""
    return 0 if most is None else max(0, len(group_problems(verdict.problems)) - most)


def plain_failure(
    error: BaseException, check_id: str, file_name: str, program: Program, *, traces: bool
) -> FailureText:
    """Return problems, one line each, or a bug with its traceback."""
    if isinstance(error, ProblemsFound):
        return plain_lines(str(error), file_name)
    if isinstance(error, ReadersDisagree):
        return plain_lines("\n".join(_differences(error, check_id, file_name)), file_name)
    if isinstance(error, BinaryChecksError) and not traces:
        problem = Problem(sentence=program.name_options(str(error)))
        return plain_lines(cut(finding_line(check_id, file_name, problem)), file_name)
    return _plain_traceback(error, file_name)


def _differences(error: ReadersDisagree, check_id: str, file_name: str) -> Iterator[str]:
    for line in islice(error.lines, MOST):
        yield cut(finding_line(check_id, file_name, Problem(sentence=line)))
    if hidden := len(error.lines[MOST:]):
        yield f"  and {hidden:,} more"


def plain_lines(text: str, file_name: str) -> FailureText:
    """Return a failure with this text; the text's first line is also the message in summaries."""
    return _make_failure(text, file_name, text.partition("\n")[0])


def restore(text: str, file_name: str) -> FailureText:
    """Restore a failure from a worker's text. A traceback's last line describes the bug."""
    lines = text.split("\n")
    return _make_failure(text, file_name, lines[-1 if lines[0].startswith(_TRACE) else 0])


_TRACE = "Traceback (most recent call last):"


def _plain_traceback(error: BaseException, file_name: str) -> FailureText:
    """Return the traceback of an error in our code; its text may come from a package."""
    lines = "".join(traceback.format_exception(error)).rstrip().split("\n")
    text = "\n".join(map(one_line, lines))
    return _make_failure(text, file_name, one_line(f"{type(error).__name__}: {error}"))


def _make_failure(text: str, file_name: str, summary: str) -> FailureText:
    crash = Crash(path=one_line(file_name), lineno=0, message=cut(summary))
    return FailureText(text=text, reprcrash=crash)


def usage_error(*lines: str) -> pytest.UsageError:
    """Return the error that ends the run with exit code 4, with a line for each mistake."""
    return pytest.UsageError(*(cut(one_line(line)) for line in lines))
