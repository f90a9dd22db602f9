"""How problems travel to pytest, and how they look there: as they are, one line each."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pytest

from binary_checks.errors import BinaryChecksError, ReadersDisagree
from binary_checks.examination.judging import Verdict
from binary_checks.lines import MOST, cut, one_line
from binary_checks.model import Problem
from binary_checks.options import Program
from binary_checks.profile.known import is_follow_up
from binary_checks.wording.problem_lines import finding_line, group_problems


@dataclass(frozen=True, kw_only=True, slots=True)
class Crash:
    """What pytest's short summary, ``--tb=line`` and JUnit's message say of a failure."""

    path: str
    lineno: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.lineno}: {self.message}"


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureText:
    """Text at column 0, as pytest takes it from ``repr_failure``: by these two names alone.

    From a worker of xdist's it arrives as the text alone, which `restore` makes whole again.
    """

    text: str
    reprcrash: Crash

    def abridge(self, beginning: str) -> FailureText:
        """The same, whose line in the short summary does not begin so."""
        message = self.reprcrash.message.removeprefix(one_line(beginning))
        return replace(self, reprcrash=replace(self.reprcrash, message=message))

    def toterminal(self, writer: Any) -> None:
        """Write it as it is."""
        writer.write(f"{self.text}\n")

    def __str__(self) -> str:
        return self.text


class ProblemsFound(Exception):
    """The package has problems that nobody accepted; the text is one line each."""


class ProblemsAccepted(Exception):
    """Every problem found is accepted in the profile; the text is the reasons."""


def describe(
    verdict: Verdict, advice: Iterable[str], program: Program, most: int | None = MOST
) -> str:
    """The problems, so many of them that are shown, and what to do about them.

    None shows all of them, and whole.
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
    """How many of its lines are not shown."""
    return 0 if most is None else max(0, len(group_problems(verdict.problems)) - most)


def plain_failure(
    error: BaseException, check_id: str, file_name: str, program: Program, *, traces: bool
) -> FailureText:
    """Problems as they are, one line each; of a bug where it comes from."""
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
    """Text at column 0, its first line also in the short summary and in JUnit's message."""
    return _spell(text, file_name, text.partition("\n")[0])


def restore(text: str, file_name: str) -> FailureText:
    """What a worker sent. Of a bug of ours the last line says what it was."""
    lines = text.split("\n")
    return _spell(text, file_name, lines[-1 if lines[0].startswith(_TRACE) else 0])


_TRACE = "Traceback (most recent call last):"


def _plain_traceback(error: BaseException, file_name: str) -> FailureText:
    """Where an error of ours comes from; its text may be a package's."""
    lines = "".join(traceback.format_exception(error)).rstrip().split("\n")
    text = "\n".join(map(one_line, lines))
    return _spell(text, file_name, one_line(f"{type(error).__name__}: {error}"))


def _spell(text: str, file_name: str, summary: str) -> FailureText:
    crash = Crash(path=one_line(file_name), lineno=0, message=cut(summary))
    return FailureText(text=text, reprcrash=crash)


def misused(*lines: str) -> pytest.UsageError:
    """What ends the run with exit code 4, a line for each mistake."""
    return pytest.UsageError(*(cut(one_line(line)) for line in lines))
