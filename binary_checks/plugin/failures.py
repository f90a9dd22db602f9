"""How problems travel to pytest, and how they look there: as they are, one line each."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from itertools import islice

import pytest
from _pytest._code.code import (
    ExceptionChainRepr,
    ReprEntryNative,
    ReprFileLocation,
    ReprTraceback,
)

from binary_checks.errors import BinaryChecksError
from binary_checks.judging import Verdict, problem_line
from binary_checks.lines import MOST, cut, one_line
from binary_checks.model import Problem


class ProblemsFound(Exception):
    """The package has problems that nobody accepted; the text is one line each."""


class ProblemsAccepted(Exception):
    """Every problem found is accepted in the profile; the text is the reasons."""


def describe(verdict: Verdict, advice: Iterable[str], most: int | None = MOST) -> str:
    """The problems, so many of them that are shown, and what to do about them.

    None shows all of them, and whole.
    """
    return "\n".join(_describe(verdict, advice, most))


def _describe(verdict: Verdict, advice: Iterable[str], most: int | None) -> Iterator[str]:
    lines = verdict.lines()
    yield from lines if most is None else map(cut, islice(lines, most))
    if hidden := count_hidden(verdict, most):
        yield f"  and {hidden:,} more, in the report (--binary-sarif FILE)"
    if verdict.accepted:
        yield f"{len(verdict.accepted):,} accepted"
    if most != 0:
        yield from advice


def count_hidden(verdict: Verdict, most: int | None = MOST) -> int:
    """How many of its problems are not shown."""
    return 0 if most is None else max(0, len(verdict.problems) - most)


def plain_failure(
    error: BaseException, check_id: str, file_name: str, *, traces: bool
) -> ExceptionChainRepr:
    """Problems as they are, one line each; of a bug where it comes from."""
    if isinstance(error, ProblemsFound):
        return plain_lines(str(error), file_name)
    if isinstance(error, BinaryChecksError) and not traces:
        return plain_lines(
            cut(problem_line(check_id, file_name, Problem(sentence=str(error)))), file_name
        )
    return _plain_traceback(error, file_name)


def plain_lines(text: str, file_name: str) -> ExceptionChainRepr:
    """Text at column 0, its first line also in the short summary and in JUnit's message."""
    return _lines(text, file_name, text.partition("\n")[0])


def _plain_traceback(error: BaseException, file_name: str) -> ExceptionChainRepr:
    """Where an error of ours comes from; its text may be a package's."""
    lines = "".join(traceback.format_exception(error)).rstrip().split("\n")
    text = "\n".join(map(one_line, lines))
    return _lines(text, file_name, one_line(f"{type(error).__name__}: {error}"))


def _lines(text: str, file_name: str, summary: str) -> ExceptionChainRepr:
    entry = ReprTraceback([ReprEntryNative([text + "\n"])], None, style="native")
    location = ReprFileLocation(one_line(file_name), 0, cut(summary))
    return ExceptionChainRepr([(entry, location, None)])


def misused(text: str) -> pytest.UsageError:
    """What ends the run with exit code 4, in one line."""
    return pytest.UsageError(cut(one_line(text)))
