"""The causes of problems, and the lines that findings become."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from binary_checks.lines import cut, one_line
from binary_checks.model import (
    Edge,
    Ending,
    Format,
    Layout,
    Linkage,
    Package,
    Step,
    UnresolvedSymbol,
)
from binary_checks.model.linkage import Directories, directories
from binary_checks.model.outcomes import Level, Note, NotInspected, Problem
from binary_checks.model.run_results import Accepted

# Spells what problems come from, once for all checks: those of equal causes are one fault.
#
# A cause says what has to be mended, not what goes wrong because of it.

_GRAFTED = (".libs", ".dylibs")
"""How the folders end that repair tools make: nothing but libraries was ever in one."""
_IN_FRAMEWORK = re.compile(r"(?<=\.framework)/.*")
"""A search path leads to the folder of a framework, not into it."""


def of_library(name: str) -> str:
    """A library that is nowhere, by whatever path or install name it is needed."""
    return f"library {name.rpartition('/')[2]}"


def of_bundled(path: str) -> str:
    """A file of the package that must come with the user's system."""
    return f"bundled {path}"


def of_broken_source(path: str) -> str:
    """A Python file that does not compile, by its path in site-packages."""
    return f"syntax {path}"


def of_lost_folder(folder: str) -> str:
    """A folder of libraries that the package has lost as a whole."""
    return f"lost folder {folder}"


def of_unreached_folder(folder: str) -> str:
    """A folder of the package that objects need and no search path leads to."""
    return f"no search path to {folder or '.'}"


Known = Callable[[], Directories]
"""Finds the folders that a package has, which of few packages are asked for."""


def of_need(edge: Edge, known: Known, layout: Layout) -> str:
    """Why a needed library is not found, or only by luck."""
    there = edge.resolved or next(iter(edge.elsewhere), "")
    if there:
        place = _IN_FRAMEWORK.sub("", layout.shorten_label(there))
        return of_unreached_folder(place.rpartition("/")[0])
    return _find_lost(edge.searched, known, layout) or of_library(edge.needed)


def of_lost_file(path: str, known: Known, layout: Layout) -> str:
    """Why a file is not there that RECORD lists; its place counts from the prefix."""
    folder, _, name = path.rpartition("/")
    return _find_lost((folder,), known, layout) or of_library(name)


def _find_lost(folders: tuple[str, ...], known: Known, layout: Layout) -> str:
    lost = (each for each in _find_grafted(folders) if each not in known())
    return next((of_lost_folder(layout.shorten(each)) for each in lost), "")


@lru_cache(maxsize=1024)
def _find_grafted(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Those that repair tools make; thousands of needs may be looked for in the same folders."""
    return tuple(each for each in folders if each.endswith(_GRAFTED))


def of_newer_build(minimum_os: str) -> str:
    """Code that is compiled for a newer macOS than is promised."""
    return f"code built for macOS {minimum_os}"


def of_other_version(library: str) -> str:
    """A library that is there in another version than the one that was linked with."""
    return f"version of {re.split('[/:]', library)[-1]}"


def of_newer_system(lowest: str) -> str:
    """Code that is compiled on a newer Linux than is promised; ``lowest`` is its true tag."""
    return f"code built for {lowest or 'no tag at all'}"


def of_symbols(items: Sequence[UnresolvedSymbol], linkage: Linkage) -> str:
    """Symbols of one object that are undefined, for one reason."""
    first = items[0]
    if linkage.format != Format.ELF and first.library:
        return of_other_version(first.library)
    if other := first.provider or first.other_abi:
        return of_other_version(other)
    if first.elsewhere:
        return f"not linked with {linkage.show(first.elsewhere)}"
    return f"undefined symbol {min(item.name for item in items)}"


_UNDEFINED = r"undefined symbol: (?P<name>\w+)|Symbol not found: _?(?P<other>\w+)"
_REFUSALS = (
    r"(?P<name>[^\s:]+): cannot open shared object file",  # glibc
    r"Error loading shared library (?P<name>[^\s:]+): No such file",  # musl
    r"Library not loaded: (?P<name>\S+)",  # dyld
)


def read_refusal(message: str) -> str:
    """The library that a loader did not find, as it says; "" where it says something else."""
    matches = (re.search(pattern, message) for pattern in _REFUSALS)
    return next((match["name"].rpartition("/")[2] for match in matches if match), "")


def name_end(step: Step) -> str:
    """Return the name of what a step failed for, which stays the same when words around it change.

    That is the module, file, library or symbol that was not found; without one, the class of the
    exception, and without that the kind of ending, as ``crashed``.
    """
    if lacking := step.missing_module or step.missing_file or step.broken_file:
        return lacking
    symbol = re.search(_UNDEFINED, step.detail)
    if lacking := symbol[symbol.lastgroup or 0] if symbol else read_refusal(step.detail):
        return lacking
    exception = re.match(r"[\w.]+(?=:|$)", step.detail)
    return exception[0] if exception and step.outcome is Ending.RAISED else step.outcome.value


def of_refusal(message: str, linkage: Linkage | Package, package: Package) -> str:
    """The same as a cause, with what the simulation knows of it, if there was one."""
    name = read_refusal(message)
    if not name:
        return _find_symbol(message, linkage) if isinstance(linkage, Linkage) else ""
    for edge in linkage.edges if isinstance(linkage, Linkage) else ():
        if edge.needed.rpartition("/")[2] == name and edge.resolved is None:
            return of_need(edge, partial(directories, package), linkage.layout)
    return of_library(name)


def _find_symbol(message: str, linkage: Linkage) -> str:
    """Why a symbol is undefined that a loader names, where the simulation has missed it too."""
    match = re.search(_UNDEFINED, message)
    name = match[match.lastgroup or 0] if match else ""
    first = next((item for item in linkage.unresolved if item.name == name), None)
    if first is None:
        return ""
    alike = (first.path, first.provider, first.elsewhere)
    items = (i for i in linkage.unresolved if (i.path, i.provider, i.elsewhere) == alike)
    return of_symbols(tuple(items), linkage)


# How findings are spelled as lines, and which problems of one check share one.

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
    def identity(self) -> tuple[str, ...]:
        """What stays the same from build to build, for fingerprints: the cause, or path and facts.

        A cause has no path: the fault is the same however many files have it.
        """
        return (self.first.cause,) if self.first.cause else (self.first.path, *self.first.facts)

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


def summarise_gap(not_inspected: tuple[NotInspected, ...]) -> str:
    """Say in one line what a check that ran could not see; "" when it saw all."""
    if not not_inspected:
        return ""
    first = not_inspected[0]
    where = f"{first.path}: " if first.path else ""
    more = len(not_inspected) - 1
    return cut(one_line(f"{where}{first.sentence}")) + (f" (and {more} more)" if more else "")
