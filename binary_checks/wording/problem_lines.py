"""How findings are spelled as lines, and which problems of one check share one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from binary_checks.lines import one_line
from binary_checks.model.outcomes import Level, Note, NotInspected, Problem
from binary_checks.model.run_results import Accepted

_NAMED = 3  # files of a group that its line names


@dataclass(frozen=True, kw_only=True, slots=True)
class ProblemGroup:
    """Problems of one check and one level that are one fault to users: never empty."""

    problems: tuple[Problem, ...]

    @property
    def first(self) -> Problem:
        """The one whose sentence stands for all."""
        return self.problems[0]

    @property
    def level(self) -> Level:
        """The level that they share."""
        return self.first.level

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that have it, each once, that of `first` first."""
        return tuple(dict.fromkeys(problem.path for problem in self.problems))

    @property
    def sentence(self) -> str:
        """That of the first, with the number of the other files and the names of some."""
        others = self.paths[1:]
        if not others:
            return self.first.sentence
        named = ", ".join(others[: _NAMED - 1])
        ending = ", ..." if len(others) >= _NAMED else ""
        plural = "" if len(others) == 1 else "s"
        return f"{self.first.sentence} (and {len(others):,} more file{plural}: {named}{ending})"


def group_problems(problems: Iterable[Problem]) -> tuple[ProblemGroup, ...]:
    """Those of one check by level, and by cause or else by sentence, in order of the first."""
    groups: dict[tuple[Level, str, str], list[Problem]] = {}
    for problem in problems:
        alike = "" if problem.cause else problem.sentence
        groups.setdefault((problem.level, problem.cause, alike), []).append(problem)
    return tuple(ProblemGroup(problems=tuple(group)) for group in groups.values())


def problem_lines(
    check_id: str, package_file_name: str, problems: Iterable[Problem]
) -> Iterator[str]:
    """A line for each group of the problems of one check on one package."""
    for group in group_problems(problems):
        yield group_line(check_id, package_file_name, group)


def group_line(check_id: str, package_file_name: str, group: ProblemGroup) -> str:
    """``check-id: package-file-name: path: sentence``, with the path of the first file."""
    return _spell(check_id, package_file_name, group.first.path, group.sentence)


def finding_line(
    check_id: str, package_file_name: str, finding: Problem | NotInspected | Note
) -> str:
    """``check-id: package-file-name: path: sentence``, without the path where there is none."""
    return _spell(check_id, package_file_name, finding.path, finding.sentence)


def accepted_line(check_id: str, package_file_name: str, accepted: Accepted) -> str:
    """The same of a problem that the project has accepted, with the reason and for how long."""
    line = finding_line(check_id, package_file_name, accepted.problem)
    until = f", until {accepted.expires}" if accepted.expires else ""
    return one_line(f"accepted: {line} ({accepted.reason}{until})")


def _spell(*parts: str) -> str:
    return one_line(": ".join(part for part in parts if part))
