"""Faults: problems of several checks that have one cause are shown as one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit

from binary_checks.model import CheckResult, Level, PackageResult
from binary_checks.safe_text import one_line
from binary_checks.wording.problem_lines import ProblemGroup, group_line, group_problems


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedGroup:
    """Problems of one check about one fault."""

    check: str  # check id
    family: str
    item: str  # the check, and the place if there are several
    group: ProblemGroup


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A fault of a package: the problem that is shown, and the problems folded under it."""

    shown: CheckedGroup
    # problems with the same cause, which other checks found or which are less serious
    folded: tuple[CheckedGroup, ...] = ()

    @property
    def level(self) -> Level:
        """The most serious level of the fault's problems."""
        return self.shown.group.level

    def also(self) -> str:
        """Return the other checks that found the fault: "undefined-symbol (3 files)", or ""."""
        files: dict[str, set[str]] = {}
        for each in self.folded:
            if each.check != self.shown.check:
                files.setdefault(each.check, set()).update(each.group.paths)
        counts = {check: len(paths) for check, paths in files.items()}
        return ", ".join(
            f"{check} ({number:,} files)" if number > 1 else check
            for check, number in counts.items()
        )

    def seen(self) -> str:
        """Return how an import or a module fails because of the fault, as users see it, or ""."""
        ran = (e for e in self.folded if e.family == "runtime" and e.group.level is Level.ERROR)
        first = min((e.group.first for e in ran), key=lambda each: bool(each.path), default=None)
        if first is None or self.shown.family == "runtime":
            return ""
        return one_line(f"{first.path}: {first.sentence}" if first.path else first.sentence)


def fold(results: Iterable[CheckResult]) -> tuple[Fault, ...]:
    """Return the faults of one package: errors first, problems before gaps, then by check.

    Only unaccepted problems among these results count. So nothing is folded under a line that is
    not shown, such as the line of a deselected check or of an accepted problem.
    """
    found = [
        CheckedGroup(check=each.shown_check, family=each.family, item=each.item, group=group)
        for each in results
        for group in group_problems((*each.problems, *each.warnings))
    ]
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
    # errors first; gaps last, as another problem often causes them
    faults.sort(key=lambda each: (each.level is not Level.ERROR, each.shown.group.first.is_gap))
    return tuple(faults)


def count_levels(results: Iterable[CheckResult]) -> Counter[Level]:
    """Return the numbers of faults that are errors and of those that are warnings."""
    return Counter(fault.level for fault in fold(results))


def count_accepted(results: Iterable[CheckResult]) -> int:
    """Return the number of accepted faults, which are counted as if they were not accepted."""
    restored = (
        replace(each, problems=tuple(known.problem for known in each.accepted), warnings=())
        for each in results
    )
    return len(fold(restored))


@dataclass(frozen=True, kw_only=True, slots=True)
class FamilyFaults:
    """The faults that reports show under the checks of one family."""

    errors: int = 0
    warnings: int = 0
    elsewhere: bool = False  # whether errors of the family are shown under another family's check


def count_by_family(results: Iterable[CheckResult]) -> dict[str, FamilyFaults]:
    """Return the faults by family: each counts once, for the check under which it is shown."""
    levels = Counter[tuple[str, Level]]()
    followed: set[str] = set()
    for fault in fold(results):
        levels[fault.shown.family, fault.level] += 1
        followed.update(e.family for e in fault.folded if e.group.level is Level.ERROR)
    families = {family for family, _ in levels} | followed
    return {
        family: FamilyFaults(
            errors=levels[family, Level.ERROR],
            warnings=levels[family, Level.WARNING],
            elsewhere=family in followed and not levels[family, Level.ERROR],
        )
        for family in families
    }


def fault_line(package_file_name: str, fault: Fault) -> str:
    """Return the fault's line, marked if it is a warning, with other checks that found it."""
    mild = "" if fault.level is Level.ERROR else f"{fault.level.value}: "
    return f"{mild}{unmarked_line(package_file_name, fault)}"


def unmarked_line(package_file_name: str, fault: Fault) -> str:
    """Return the fault's line without its level, for reports that state the level elsewhere."""
    line = group_line(fault.shown.check, package_file_name, fault.shown.group)
    also = f" [also: {others}]" if (others := fault.also()) else ""
    return one_line(f"{line}{also}")


def _rank(each: CheckedGroup) -> tuple[bool, bool, bool]:
    """Return a sort key: the most serious problem leads, and a cause precedes its consequence.

    Of two consequences, the one with a command that mends it leads.
    """
    problems = each.group.problems
    follows = all(problem.consequence for problem in problems)
    return each.group.level is not Level.ERROR, follows, not each.group.first.command


def shell_path(package: PackageResult, path: str = "") -> str:
    """Return the package's path for commands; for a published package its file name."""
    origin = package.provenance
    if origin is None:
        return path or unquote(package.uri)
    here = origin.url.startswith("file:")
    return unquote(urlsplit(origin.url).path) if here else package.file_name
