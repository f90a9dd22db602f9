"""Whose fault it is that an import fails, or that an entry point cannot be loaded.

The exception names a module or a file; the package's own members tell whose it is. An entry point
may also need an extra, a display, or the program that looks for it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from packaging.utils import canonicalize_name

from binary_checks.knowledge.python_libraries import ModuleFiles
from binary_checks.model import (
    Distribution,
    Ending,
    Finding,
    Level,
    NotInspected,
    Package,
    Problem,
    Step,
    Wheel,
)
from binary_checks.model.entry_points import EntryPoint, LoadedEntryPoint, LoadedEntryPoints
from binary_checks.model.requires_dist import find_names_in_extras, read_requirement
from binary_checks.wording.problem_lines import of_broken_source
from binary_checks.wording.sentences import describe_end, name_first

_LONGEST = 200  # characters of a name in a sentence
_DEEPEST = 100  # folders, within which modules lie


def find_own_part(step: Step, package: Package) -> str:
    """Name what the package should have and has not, as a sentence; "" for nothing.

    Of a package without ``__init__`` other distributions may have parts.
    """
    noun = "the wheel" if isinstance(package, Wheel) else "the package"
    files = package.derive(ModuleFiles)
    if name := step.missing_module:
        nearest = next((each for each in _list_parents(name) if files.has(each)), "")
        own = bool(nearest) and not files.shares(nearest)
        return f"{name[:_LONGEST]} is not in {noun}" if own and not files.has(name) else ""
    if path := step.missing_file:
        folders = _list_parents(path.replace("/", "."))
        own = any(files.has(each) and not files.shares(each) for each in folders)
        lacks = path not in package.derive(_find_installed)
        return f"{path[:_LONGEST]} is not in {noun}" if own and lacks else ""
    return ""


def name_broken_source(step: Step, package: Package) -> str:
    """The cause where a file of the package does not compile, else ""."""
    own = step.broken_file in package.derive(_find_installed)
    return of_broken_source(step.broken_file) if own else ""


def _find_installed(package: Package) -> frozenset[str | None]:
    """The package's files in site-packages, by their paths there."""
    return frozenset(package.layout.inside(member.path) for member in package.members)


def _list_parents(name: str) -> Iterator[str]:
    """The packages around a module, the innermost first."""
    parts = name.split(".")[:_DEEPEST]
    return (".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))


class _Requirements(NamedTuple):
    """The projects that a distribution requires, by their normalised names."""

    always: frozenset[str]  # on some system at least
    in_extras: frozenset[str]  # by an extra alone


def _read_requirements(package: Distribution) -> _Requirements:
    found = filter(None, map(read_requirement, package.requires_dist))
    in_extras = find_names_in_extras(package.requires_dist)
    every = frozenset(canonicalize_name(each.name) for each in found)
    return _Requirements(always=every - in_extras, in_extras=in_extras)


def find_lacking_requirement(step: Step, package: Package) -> str:
    """Say that Requires-Dist lacks the module of others that was not found; "" for none.

    It holds where all that the package requires was installed: then what is not found is in none
    of that, whatever it is called. What an extra requires was not.
    """
    top = step.missing_module
    if not top or "." in top or top in sys.stdlib_module_names:
        return ""
    if not isinstance(package, Distribution) or top in package.derive(ModuleFiles).roots:
        return ""
    required = package.derive(_read_requirements)
    if canonicalize_name(top) in required.always | required.in_extras:
        return ""
    doubt = ", unless an extra has it" if required.in_extras else ""
    return f"Requires-Dist lacks {top[:_LONGEST]}{doubt}"


# What the loading of entry points says.

_HOST_OF = {"pytest11": "pytest"}
"""Groups whose entry points are loaded with any use of the program that looks for them."""
_FAULTS = frozenset(
    {"ImportError", "ModuleNotFoundError", "AttributeError", "NameError", "UnboundLocalError"}
    | {"SyntaxError", "IndentationError", "TabError", "TypeError"}
)
"""Exceptions that no other host or setting spares users."""
_OF_SYNTAX = frozenset({"SyntaxError", "IndentationError", "TabError"})
_DISPLAY = re.compile(r"\bdisplay\b|\bX11\b|\bxcb\b|wayland|TclError|\bGLFW", re.IGNORECASE)
_ELSEWHERE = {
    **dict.fromkeys(
        (Ending.HUNG, Ending.STOPPED, Ending.EXITED), "whether it then works is not known"
    ),
    Ending.LOADER_ERROR: "the checks of extension modules and of imports judge that",
}
"""Endings that this is not to judge."""


def is_always_loaded(point: EntryPoint) -> bool:
    """Whether users run it, or load it with any use of the program that looks for it."""
    return point.is_script or point.group in _HOST_OF


def judge_loaded(loaded: LoadedEntryPoints, package: Distribution, path: str) -> Iterator[Finding]:
    """Judge what came of loading them: what fails alike in one module is said once."""
    said: dict[tuple[str, str, bool], list[LoadedEntryPoint]] = {}
    for each in loaded.points:
        if not each.callable and each.point.is_script:
            sentence = f"{each.point.say()}: it cannot be called, so that the command fails"
            yield Problem(path=path, sentence=sentence)
        elif each.step.outcome is not Ending.OK:
            alike = (each.step.name, describe_end(each.step), each.point.is_script)
            said.setdefault(alike, []).append(each)
    failure = _Failure(package, path, loaded.requirements_installed)
    for group in said.values():
        yield failure.judge(group)
    if loaded.untried:
        names = name_first([point.name for point in loaded.untried])
        yield NotInspected(path=path, sentence=f"{names} not loaded: {loaded.limit}")


class _Failure:
    """Says whose fault it is that an entry point cannot be loaded."""

    def __init__(self, package: Distribution, path: str, requirements_installed: bool) -> None:
        self._package, self._path = package, path
        self._installed = requirements_installed
        self._required = package.derive(_read_requirements)
        self._own = package.derive(ModuleFiles).roots

    def judge(self, group: Sequence[LoadedEntryPoint]) -> Finding:
        """Judge entry points of one module that fail in the same way."""
        first = group[0]
        more = f" (and {len(group) - 1} more of the module)" if group[1:] else ""
        sentence = f"{first.point.say()}{more} {describe_end(first.step)}"
        part = find_own_part(first.step, self._package)
        if doubt := "" if part else self._find_doubt(first):
            return NotInspected(path=self._path, sentence=f"{sentence}: {doubt}")
        why = part or (
            find_lacking_requirement(first.step, self._package) if self._installed else ""
        )
        broken = name_broken_source(first.step, self._package)
        raised = first.step.detail if first.step.outcome is Ending.RAISED else ""
        return Problem(
            path=self._path,
            sentence=f"{sentence}: {why}" if why else sentence,
            level=self._rate(first, why),
            cause=why or broken or raised,
            consequence=bool(broken) or not first.imported,
        )

    def _find_doubt(self, each: LoadedEntryPoint) -> str:
        """Why a healthy package may fail so; "" where none does."""
        point, step = each.point, each.step
        if step.outcome in _ELSEWHERE:
            return _ELSEWHERE[step.outcome]
        shown = point.group == "gui_scripts" and each.exception not in _FAULTS
        if shown or _DISPLAY.search(f"{step.detail}\n{step.stderr}"):
            return "it may need a display"
        if step.missing_module:
            return self._find_provider(point, step.missing_module)
        certain = point.is_script or each.imported or each.exception in _OF_SYNTAX
        if certain or (point.group in _HOST_OF and each.exception in _FAULTS):
            return ""
        return f"what looks for {point.group} may have prepared it"

    def _find_provider(self, point: EntryPoint, module: str) -> str:
        """Who may have a module that is not found; "" for nobody."""
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names:
            return f"this Python has no {top}"
        if canonicalize_name(top) in self._required.in_extras or point.extras:
            return f"only an extra requires {top}"
        if point.is_script or top in self._own:
            return ""
        host = _HOST_OF.get(point.group, "")
        if host in self._required.always:
            return ""
        return f"{host or 'what looks for ' + point.group} may bring {module[:_LONGEST]}"

    def _rate(self, each: LoadedEntryPoint, why: str) -> Level:
        if not is_always_loaded(each.point):
            return Level.WARNING
        if each.step.outcome is Ending.CRASHED:
            return Level.ERROR
        if why.startswith("Requires-Dist") and self._required.in_extras:
            return Level.WARNING  # an extra may bring it under another name, as PyYAML does yaml
        return Level.ERROR if why or each.exception in _FAULTS else Level.WARNING
