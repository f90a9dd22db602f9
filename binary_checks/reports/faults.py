"""One fault is shown once: of the lines that several checks have for one cause the best leads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from binary_checks.lines import one_line
from binary_checks.model import Level
from binary_checks.model.run_results import CheckResult, PackageResult
from binary_checks.wording.problem_lines import ProblemGroup, group_line, group_problems


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedGroup:
    """What one check says of one fault."""

    check: str  # id
    group: ProblemGroup


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One fault of a package: the line that is shown of it, and those folded under it."""

    shown: CheckedGroup
    folded: tuple[CheckedGroup, ...] = ()  # of other checks, or milder ones; the same cause

    @property
    def level(self) -> Level:
        """The gravest level of all its lines."""
        return self.shown.group.level

    def also(self) -> str:
        """The other checks, with their files, as "undefined-symbol (3 files)"; or ""."""
        files: dict[str, set[str]] = {}
        for each in self.folded:
            if each.check != self.shown.check:
                files.setdefault(each.check, set()).update(each.group.paths)
        return ", ".join(f"{check}{_count(paths)}" for check, paths in files.items())


def _count(paths: set[str]) -> str:
    return f" ({len(paths):,} files)" if len(paths) > 1 else ""


def fold(results: Iterable[CheckResult]) -> tuple[Fault, ...]:
    """The faults of one package: errors first, problems before gaps, else in the order of checks.

    Only unaccepted problems of these very results count, so that nothing is folded under a line
    that is not shown: that of a check which was deselected, or of a problem that was accepted.
    """
    found = tuple(_all_groups(results))
    by_cause: dict[str, list[CheckedGroup]] = {}
    for each in found:
        if cause := each.group.first.cause:
            by_cause.setdefault(cause, []).append(each)
    leaders = {cause: min(ours, key=_rank) for cause, ours in by_cause.items()}
    faults: list[Fault] = []
    for each in found:
        cause = each.group.first.cause
        if not cause:
            faults.append(Fault(shown=each))
        elif leaders[cause] is each:
            others = tuple(other for other in by_cause[cause] if other is not each)
            faults.append(Fault(shown=each, folded=others))
    return tuple(sorted(faults, key=_place))


def fault_line(package_file_name: str, fault: Fault) -> str:
    """Its line, which says too that it is only a warning, and which other checks failed for it."""
    line = group_line(fault.shown.check, package_file_name, fault.shown.group)
    mild = "" if fault.level is Level.ERROR else f"{fault.level.value}: "
    also = f" [also: {others}]" if (others := fault.also()) else ""
    return one_line(f"{mild}{line}{also}")


def _all_groups(results: Iterable[CheckResult]) -> Iterator[CheckedGroup]:
    for result in results:
        for group in group_problems((*result.problems, *result.warnings)):
            yield CheckedGroup(check=result.shown_check, group=group)


def _place(fault: Fault) -> tuple[bool, bool]:
    """What a required check could not see comes last: it is often for a problem of another."""
    return fault.level is not Level.ERROR, fault.shown.group.first.is_gap


def _rank(each: CheckedGroup) -> tuple[bool, bool]:
    """The gravest leads, and among these one that is no consequence; else the first."""
    problems = each.group.problems
    follows = all(problem.consequence for problem in problems)
    return each.group.level is not Level.ERROR, follows


def shell_path(package: PackageResult, path: str = "") -> str:
    """What a command takes for the package's file: where it lies; of a published one its name."""
    origin = package.provenance
    if origin is None:
        return path or unquote(package.uri)
    here = origin.url.startswith("file:")
    return unquote(urlsplit(origin.url).path) if here else package.file_name
