"""Causes of problems, and the lines that reports print for findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from binary_checks.model import (
    Accepted,
    Directories,
    Edge,
    Ending,
    Format,
    Layout,
    Level,
    Linkage,
    MalformedObject,
    Note,
    NotInspected,
    Package,
    Problem,
    Step,
    UnresolvedSymbol,
    directories,
)
from binary_checks.safe_text import cut, one_line

# Texts for the causes of problems, the same in all checks: problems with equal causes are one
# fault.
#
# A cause names what has to be mended, not what goes wrong because of it.

EDITABLE = "editable installation"
"""The cause of all faults of a wheel whose modules stay on the machine that built it."""
_GRAFTED = (".libs", ".dylibs")
"""Suffixes of the folders into which repair tools put libraries; a wheel has nothing else there."""
_IN_FRAMEWORK = re.compile(r"(?<=\.framework)/.*")
"""The part of a path inside a framework: a search path leads to the framework's folder, not into
it.
"""


def of_library(name: str) -> str:
    """Return the cause for a library that is found nowhere; ``name`` may be a path."""
    return f"library {name.rpartition('/')[2]}"


def of_requirement(project: str) -> str:
    """Return the cause for a project that the package needs but does not require."""
    return f"requirement {project}"


def of_toolkit(name: str) -> str:
    """Return the cause for libraries of software that users install themselves."""
    return f"installation of {name}"


def of_other_build(framework: str) -> str:
    """Return the cause for libraries that the given build of a framework does not have."""
    return f"build of {framework}"


_CODE_FOR = "code for "
OF_CPU_LABEL = "CUDA in a CPU-only build"
"""The cause for everything of CUDA in a package that is called CPU-only."""


OF_CXX_ABI = "two types of std::string"
"""The cause for objects of a package that were compiled for different ABIs of libstdc++."""


OF_NO_FILES = "no files"  # but the metadata of a distribution
OF_OTHER_STRINGS = "strings of another width"  # in modules for Python 2
OF_ONE_PROCESSOR = "one processor"  # for which a wheel for any platform has files
OF_ENABLED_GIL = "GIL enabled again"  # by extension modules, in a free-threaded Python


def of_bundled(path: str) -> str:
    """Return the cause for a file of the package that must come from the user's system instead."""
    return f"bundled {path}"


def of_broken_source(path: str) -> str:
    """Return the cause for a Python file that does not compile, by its path in site-packages."""
    return f"syntax {path}"


Known = Callable[[], Directories]
"""Returns the folders of a package; a function, because few packages need them."""


def of_need(edge: Edge, known: Known, layout: Layout) -> str:
    """Return why a needed library is not found, or is found only through the load order."""
    there = edge.resolved or next(iter(edge.elsewhere), "")
    if there:
        place = _IN_FRAMEWORK.sub("", layout.shorten_label(there))
        return f"no search path to {place.rpartition('/')[0] or '.'}"
    return _find_missing_folder(edge.searched, known, layout) or of_library(edge.needed)


def of_missing_file(path: str, known: Known, layout: Layout) -> str:
    """Return the cause for a missing file that RECORD lists; ``path`` is relative to the prefix."""
    folder, _, name = path.rpartition("/")
    return _find_missing_folder((folder,), known, layout) or of_library(name)


def _find_missing_folder(folders: tuple[str, ...], known: Known, layout: Layout) -> str:
    missing = (each for each in _find_grafted(folders) if each not in known())
    return next((f"lost folder {layout.shorten(each)}" for each in missing), "")


@lru_cache(maxsize=1024)
def _find_grafted(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders that repair tools create; cached, as thousands of needs share them."""
    return tuple(each for each in folders if each.endswith(_GRAFTED))


def of_init_function(name: str) -> str:
    """Return the cause for an init function that its extension module does not export."""
    return f"init function {name}"


def of_other_architecture(architecture: str) -> str:
    """Return the cause for objects of an architecture that the package does not claim."""
    return f"{_CODE_FOR}{architecture}"


def is_of_other_architecture(cause: str) -> bool:
    """Return whether a cause is an object of an architecture that the package does not claim."""
    return cause.startswith(_CODE_FOR)


def of_newer_build(minimum_os: str) -> str:
    """Return the cause for code that is compiled for a newer macOS than the package promises."""
    return f"code built for macOS {minimum_os}"


def of_other_version(library: str) -> str:
    """Return the cause for a library that exists only in another version."""
    return f"version of {re.split('[/:]', library)[-1]}"


def of_newer_system(promised: str) -> str:
    """Return the cause for code that needs a newer system than the promised one."""
    return f"code newer than {promised}"


def of_damage(item: MalformedObject) -> str:
    """Return the cause for a damaged object file, or for all files that are no object at all."""
    return "files in place of objects" if item.instead else f"damaged object {item.path}"


def of_symbols(items: Sequence[UnresolvedSymbol], linkage: Linkage) -> str:
    """Return the cause for undefined symbols of one object that share a reason."""
    first = items[0]
    if linkage.format != Format.ELF and first.library:
        return of_other_version(first.library)
    if first.other_abi and ":" not in first.other_abi:  # an object of the package
        return OF_CXX_ABI
    if other := first.provider or first.other_abi:
        return of_other_version(other)
    if first.elsewhere:
        return f"not linked with {linkage.layout.shorten_label(first.elsewhere)}"
    return f"undefined symbol {min(item.name for item in items)}"


_UNDEFINED = r"undefined symbol: (?P<name>\w+)|Symbol not found: _?(?P<other>\w+)"
# the message of our script for extension modules, and Python's
_NO_INIT = r"(?:exports no |module export function \()(?P<name>PyInitU?_\w+)"
_REFUSALS = (
    r"(?P<name>[^\s:]+): cannot open shared object file",  # glibc
    r"Error loading shared library (?P<name>[^\s:]+): No such file",  # musl
    r"Library not loaded: (?P<name>\S+)",  # dyld
)


def read_refusal(message: str) -> str:
    """Return the library that a loader did not find; "" if the message says something else."""
    matches = (re.search(pattern, message) for pattern in _REFUSALS)
    return next((match["name"].rpartition("/")[2] for match in matches if match), "")


def name_end(step: Step) -> str:
    """Return a name for the reason of a step's failure, independent of the message's wording.

    It is the name of the module, file, library or symbol that was not found; else the class of the
    exception; else the kind of ending, such as ``crashed``.
    """
    if lacking := step.missing_module or step.missing_file or step.broken_file:
        return lacking
    symbol = re.search(_UNDEFINED, step.detail)
    if lacking := symbol[symbol.lastgroup or 0] if symbol else read_refusal(step.detail):
        return lacking
    exception = re.match(r"[\w.]+(?=:|$)", step.detail)
    return exception[0] if exception and step.outcome is Ending.RAISED else step.outcome.value


def of_refusal(message: str, linkage: Linkage | Package, package: Package) -> str:
    """Return the cause that a loader's message gives, refined by facts of the simulation.

    ``linkage`` is the package itself if there was no simulation.
    """
    if absent := re.search(_NO_INIT, message):
        return of_init_function(absent["name"])
    name = read_refusal(message)
    if not name:
        return _find_symbol(message, linkage) if isinstance(linkage, Linkage) else ""
    for edge in linkage.edges if isinstance(linkage, Linkage) else ():
        if edge.needed.rpartition("/")[2] == name and edge.resolved is None:
            return of_need(edge, partial(directories, package), linkage.layout)
    return of_library(name)


def _find_symbol(message: str, linkage: Linkage) -> str:
    """Return the cause for a loader's undefined symbol if the simulation found it, too."""
    match = re.search(_UNDEFINED, message)
    name = match[match.lastgroup or 0] if match else ""
    first = next((item for item in linkage.unresolved if item.name == name), None)
    if first is None:
        return ""
    alike = (first.path, first.provider, first.elsewhere)
    items = (i for i in linkage.unresolved if (i.path, i.provider, i.elsewhere) == alike)
    return of_symbols(tuple(items), linkage)


# How findings become lines, and which problems of one check share a line.

_NAMED = 3  # files that the line of a group names


@dataclass(frozen=True, kw_only=True, slots=True)
class ProblemGroup:
    """Problems of one check and one level that are one fault to users; never empty."""

    problems: tuple[Problem, ...]

    @property
    def first(self) -> Problem:
        """The problem whose sentence stands for the group."""
        return self.problems[0]

    @property
    def level(self) -> Level:
        """The level of all its problems."""
        return self.first.level

    @property
    def paths(self) -> tuple[str, ...]:
        """The files with these problems, each once; the file of `first` comes first."""
        return tuple(dict.fromkeys(problem.path for problem in self.problems))

    @property
    def identity(self) -> tuple[str, ...]:
        """The identity of the fault from build to build: the cause, or else path and facts.

        With a cause the path is left out: the fault is the same however many files have it.
        """
        return (self.first.cause,) if self.first.cause else (self.first.path, *self.first.facts)

    @property
    def sentence(self) -> str:
        """The sentence of `first`, with the number of the other files and the names of some."""
        others = self.paths[1:]
        if not others:
            return self.first.sentence
        named = ", ".join(others[: _NAMED - 1])
        ending = ", ..." if len(others) >= _NAMED else ""
        plural = "" if len(others) == 1 else "s"
        return f"{self.first.sentence} (and {len(others):,} more file{plural}: {named}{ending})"


def group_problems(problems: Iterable[Problem]) -> tuple[ProblemGroup, ...]:
    """Group the problems of one check by level, and by cause or else by sentence.

    Groups are in the order of their first problems; in a group, consequences follow.
    """
    groups: dict[tuple[Level, str, str], list[Problem]] = {}
    for problem in problems:
        alike = "" if problem.cause else problem.sentence
        groups.setdefault((problem.level, problem.cause, alike), []).append(problem)
    ordered = (sorted(group, key=lambda problem: problem.consequence) for group in groups.values())
    return tuple(ProblemGroup(problems=tuple(group)) for group in ordered)


def problem_lines(
    check_id: str, package_file_name: str, problems: Iterable[Problem]
) -> Iterator[str]:
    """Yield a line for each group of the problems of one check on one package."""
    for group in group_problems(problems):
        yield group_line(check_id, package_file_name, group)


def group_line(check_id: str, package_file_name: str, group: ProblemGroup) -> str:
    """Return ``check-id: package-file-name: path: sentence``, with the path of the first file."""
    return _join_parts(check_id, package_file_name, group.first.path, group.sentence)


def finding_line(
    check_id: str, package_file_name: str, finding: Problem | NotInspected | Note
) -> str:
    """Return ``check-id: package-file-name: path: sentence``, without the path if it is empty."""
    return _join_parts(check_id, package_file_name, finding.path, finding.sentence)


def accepted_lines(
    check_id: str, package_file_name: str, accepted: Iterable[Accepted]
) -> Iterator[str]:
    """Yield a line for each reason for which problems of one check are accepted."""
    for sentence, reason in summarise_accepted(accepted):
        yield f"accepted: {_join_parts(check_id, package_file_name, sentence)} ({reason})"


def summarise_accepted(accepted: Iterable[Accepted]) -> Iterator[tuple[str, str]]:
    """Yield the first problem accepted for each reason with the number of others, and the reason.

    The reason includes the expiry date of the entry.
    """
    by_reason: dict[tuple[str, str], list[Problem]] = {}
    for each in accepted:
        by_reason.setdefault((each.reason, each.expires), []).append(each.problem)
    for (reason, expires), problems in by_reason.items():
        first, *others = group_problems(problems)
        more = f"; and {len(others):,} more problem{'s' * (len(others) > 1)}" if others else ""
        until = f", until {expires}" if expires else ""
        yield f"{_join_parts(first.first.path, first.sentence)}{more}", one_line(f"{reason}{until}")


def _join_parts(*parts: str) -> str:
    return one_line(": ".join(part for part in parts if part))


def summarise_gap(not_inspected: tuple[NotInspected, ...]) -> str:
    """Return one line on what a check could not inspect; "" if it inspected everything."""
    if not not_inspected:
        return ""
    first = not_inspected[0]
    where = f"{first.path}: " if first.path else ""
    more = len(not_inspected) - 1
    return cut(one_line(f"{where}{first.sentence}")) + (f" (and {more} more)" if more else "")
