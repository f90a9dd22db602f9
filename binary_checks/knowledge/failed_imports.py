"""Why an import fails or an entry point cannot be loaded, and whose fault that is.

The exception names a module or a file; the package's members show whether it belongs to the
package. An entry point may also need an extra, a display, or the program that uses its group.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from packaging.markers import default_environment
from packaging.utils import canonicalize_name

from binary_checks.knowledge.python_libraries import ModuleFiles
from binary_checks.knowledge.standard_library import VARY, explain_absence, find_removed
from binary_checks.model import (
    HOST_OF,
    Distribution,
    Ending,
    EntryPoint,
    Finding,
    Level,
    LoadedEntryPoint,
    LoadedEntryPoints,
    NotInspected,
    Package,
    Problem,
    Step,
    Wheel,
    applies,
    find_names_in_extras,
    init_function,
    parse_extension_name,
    read_requirement,
)
from binary_checks.safe_text import elide
from binary_checks.wording.problem_lines import (
    name_end,
    of_broken_source,
    of_init_function,
    of_requirement,
)
from binary_checks.wording.sentences import describe_end, name_first

_NOT_REQUIRED = "no Requires-Dist provides"
_REMEDIES = {  # by a part of the reason why an import fails
    _NOT_REQUIRED: "require the project that has the module (in a conda recipe, under ``run``); if "
    "users install it by themselves, say so with ``[[installs]]`` in the profile",
    " only where ": "widen the marker of that requirement",
    " instead": "put the file where the code looks for it",
    " is not in ": "include the module or the file in the package",
}
_DEEPEST = 100  # limit of nested folders of a module


def find_own_part(step: Step, package: Package) -> str:
    """Return a sentence on a missing file or module that the package should contain, or "".

    It names a file that was probably meant, but has another name or folder. A package without
    ``__init__`` may get files from other distributions.
    """
    files = package.derive(ModuleFiles)
    if name := step.missing_module:
        nearest = next((each for each in _list_parents(name) if files.has(each)), "")
        own = bool(nearest) and not files.shares(nearest)
        if not own or files.has(name):
            return ""
        return describe_absent_module(name, package)
    named = _ABSENT.search(step.detail) if step.outcome is Ending.RAISED else None
    if path := step.missing_file or (named["path"] if named else ""):
        folders = _list_parents(path.replace("/", "."))
        own = any(files.has(each) and not files.shares(each) for each in folders)
        lacks = path not in package.derive(_find_installed)
        if not own or not lacks:
            return ""
        alike = _name_only(path.rpartition("/")[2], package)
        return f"{elide(path)} is not in {_name_kind(package)}{alike}"
    return ""


def find_remedy(lack: str) -> str:
    """Return what to do about a failure with that reason."""
    return next((remedy for part, remedy in _REMEDIES.items() if part in lack), "")


def describe_absent_module(name: str, package: Package) -> str:
    """Return a clause on an own module that is missing, which is also the cause of its problems."""
    where = f"{_name_kind(package)}{_name_misplaced_module(name, package)}"
    return f"{elide(name)} is not in {where}"


def _name_kind(package: Package) -> str:
    return "the wheel" if isinstance(package, Wheel) else "the package"


def _name_misplaced_module(name: str, package: Package) -> str:
    """Return a clause with the file that has a missing module under another path, or ""."""
    stem = name.rpartition(".")[2]
    function = (init_function(stem),)
    modules = (item.path for item in package.objects if item.exports.among(function))
    path = next(modules, "")
    if path:
        return f", which has {package.layout.shorten(path)} instead"
    return _name_only(f"{stem}.py", package)


def _name_only(file_name: str, package: Package) -> str:
    """Return a clause with the only file of that name, or ""."""
    path = package.derive(_index_file_names).get(file_name, "")
    return f", which has {elide(path)} instead" if path else ""


def _index_file_names(package: Package) -> dict[str, str]:
    """Return the paths relative to site-packages by file name; "" for a name of several files."""
    found: dict[str, str] = {}
    for path in filter(None, package.derive(_find_installed)):
        name = path.rpartition("/")[2]
        found[name] = "" if name in found else path
    return found


_FRAME = re.compile(r"\((?P<path>[\w./-]{1,400}):\d+\)\Z")
"""The innermost frame of an exception, at the end of the step's detail."""


def find_judged_owner(step: Step, package: Package, projects: Collection[str]) -> str:
    """Return the top-level name of another package, whose own module the loader refuses, or "".

    It is named like one of these projects, all of which the run judges.
    """
    frame = _FRAME.search(step.detail) if step.outcome is Ending.LOADER_ERROR else None
    top = frame["path"].partition("/")[0] if frame else ""
    if not top or top in package.derive(ModuleFiles).roots:
        return ""
    return top if canonicalize_name(top) in projects else ""


def name_lack(step: Step, package: Package, lack: str) -> str:
    """Return the cause of a failure whose reason is ``lack``.

    Other checks find that a requirement is not stated, or that a module has another file name.
    """
    if lack.startswith(_NOT_REQUIRED):
        return of_requirement(step.missing_module)
    stem = step.missing_module.rpartition(".")[2]
    for item in package.objects if stem else ():
        name = parse_extension_name(item.path)
        if name is not None and name.stem != stem and item.exports.among((init_function(stem),)):
            return of_init_function(init_function(name.stem))
    return lack


_ABSENT = re.compile(
    r"(?:non-existent|nonexistent|missing|no such|cannot find|not found)\b[^'\"]{0,40}"
    r"['\"](?P<path>\w[\w./-]{0,200}/[\w.-]{1,100}\.\w{1,10})['\"]",
    re.IGNORECASE,
)
"""Words on a file that is not there: "Cannot load imports from non-existent stub 'demo/a.pyi'"."""


def name_broken_source(step: Step, package: Package) -> str:
    """Return the cause if a file of the package does not compile, else ""."""
    own = step.broken_file in package.derive(_find_installed)
    return of_broken_source(step.broken_file) if own else ""


def _find_installed(package: Package) -> frozenset[str | None]:
    """Return the paths of the package's files relative to site-packages."""
    return frozenset(package.layout.inside(member.path) for member in package.members)


def _list_parents(name: str) -> Iterator[str]:
    """Yield the packages that contain a module, the innermost first."""
    parts = name.split(".")[:_DEEPEST]
    return (".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))


_ASKED = re.compile(
    r"\bimport(?:ing)? +[`'\"]?(?P<module>[A-Za-z_][\w.]{0,200})[`'\"]? +(?:first|before)\b"
    r"|[`'\"]?\b(?P<other>[A-Za-z_][\w.]{0,200})[`'\"]? "
    r"(?:(?:must|should|has to|needs to) be|to be|(?:has|was) not(?: been)?|is not)(?: yet)? "
    r"(?:imported|loaded)(?: yet)?\b(?! (?:from|by|with|on)\b)",
    re.IGNORECASE,
)


def find_asked_module(step: Step) -> str:
    """Return the module that a failed import asks to import first, as plugins do; else ""."""
    match = _ASKED.search(step.detail) if step.outcome is Ending.RAISED else None
    asked = (match["module"] or match["other"]) if match else ""
    return "" if asked.partition(".")[0] == step.name.partition(".")[0] else asked


_FOR_DEVELOPERS = frozenset({"dev", "doc", "docs", "lint", "test", "testing", "tests"})
"""Extras that users of a package do not need."""
_EXTRA = re.compile(r"""\bextra\s*==\s*["']([^"']{1,200})["']""")
_PYTHON = re.compile(r"\b(?:python_(?:full_)?version|\w*implementation\w*)\b")
_SYSTEM = re.compile(r"\b(?:sys_platform|platform_system|platform_machine|os_name)\b")


class _Requirements(NamedTuple):
    """The normalised names of the projects that a distribution requires, and its extras."""

    always: frozenset[str]  # required on at least one system
    in_extras: frozenset[str]  # required only by an extra
    extras: frozenset[str]  # normalised
    extras_may_add: bool  # whether an extra that users may need has requirements
    # normalised name -> marker of each requirement that applies only on other systems
    elsewhere: Mapping[str, str]
    # normalised name -> marker of each requirement that only some Pythons have
    by_python: Mapping[str, str]


def _read_requirements(package: Distribution) -> _Requirements:
    found = list(filter(None, map(read_requirement, package.requires_dist)))
    in_extras = find_names_in_extras(package.requires_dist)
    marked = (name for each in found for name in _EXTRA.findall(str(each.marker or "")))
    requiring = frozenset(map(canonicalize_name, marked))
    declared = (value for key, value in package.metadata if key.lower() == "provides-extra")
    here = {name: str(value) for name, value in default_environment().items()} | {"extra": ""}
    here_too = {canonicalize_name(each.name) for each in found if applies(each, here)}
    for_systems = [
        each for each in found if _SYSTEM.search(str(each.marker or "")) and not applies(each, here)
    ]
    for_all = {canonicalize_name(each.name) for each in found if each.marker is None}
    return _Requirements(
        always=frozenset(canonicalize_name(each.name) for each in found) - in_extras,
        in_extras=in_extras,
        extras=requiring | frozenset(map(canonicalize_name, declared)),
        extras_may_add=bool(requiring - _FOR_DEVELOPERS),
        elsewhere={
            name: str(each.marker)
            for each in for_systems
            if (name := canonicalize_name(each.name)) not in in_extras | here_too
        },
        by_python={
            name: str(each.marker)
            for each in found
            if _PYTHON.search(str(each.marker or ""))
            and (name := canonicalize_name(each.name)) not in in_extras | for_all
        },
    )


def find_lacking_requirement(step: Step, package: Package) -> str:
    """Return a reason if no Requires-Dist provides a missing module of another project, else "".

    The reason is valid only if all requirements of the package were installed: a module that is
    still missing is in none of them, whatever their names. Requirements of extras were not
    installed.
    """
    top = step.missing_module
    if not top or "." in top or top in sys.stdlib_module_names:
        return ""
    if not isinstance(package, Distribution) or top in package.derive(ModuleFiles).roots:
        return ""
    required = package.derive(_read_requirements)
    name = canonicalize_name(top)
    # as the requirements were installed, a marker about Pythons excludes the one that imported
    if marker := required.elsewhere.get(name) or required.by_python.get(name):
        return f"Requires-Dist has {elide(name)} only where {elide(marker)}"
    if name in required.always | required.in_extras:
        return ""
    own = canonicalize_name(package.name)  # which no extra provides
    doubt = " (an extra may)" if required.extras_may_add and name != own else ""
    if required.elsewhere:
        doubt = f" here (other systems also get {name_first(sorted(required.elsewhere))})"
    return f"{_NOT_REQUIRED} the module {elide(top)}{doubt}"


# Results of loading entry points.

_FAULTS = frozenset(
    {"ImportError", "ModuleNotFoundError", "AttributeError", "NameError", "UnboundLocalError"}
    | {"SyntaxError", "IndentationError", "TabError", "TypeError", "PackageNotFoundError"}
)
"""Exceptions that occur on every host and with all settings."""
_OF_SYNTAX = frozenset({"SyntaxError", "IndentationError", "TabError"})
_DISPLAY = re.compile(
    r"no display name|TclError|(?:cannot|can't|could not|unable to) (?:connect to|open) "
    r"(?:the )?(?:X\b|display)|\bX11\b|\bxcb\b|wayland|\bGLFW",
    re.IGNORECASE,
)
_LIBRARY_OF_DISPLAY = re.compile(r"\b(?:libX11|libxcb|libGL|Xlib)")
_OF_MODULE = re.compile(
    r"module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'"
    r"|cannot import name '(?P<from_name>\w+)' from '(?P<from_module>[\w.]+)'"
)
_ELSEWHERE = {
    **dict.fromkeys(
        (Ending.HUNG, Ending.STOPPED, Ending.EXITED), "so it is not known whether the command works"
    ),
    Ending.LOADER_ERROR: "see extension-fails-to-load and import-fails",
}
"""Endings of processes that are not judged here."""


def names_file(point: EntryPoint, package: Package) -> bool:
    """Return whether an entry point names a data file.

    ``demo:napari.yaml`` names the file ``demo/napari.yaml``.
    """
    path = f"{point.module.replace('.', '/')}/{point.attribute}"
    return not point.is_script and path in package.derive(_find_installed)


def judge_loaded(
    loaded: LoadedEntryPoints,
    package: Distribution,
    path: str,
    read_source: Callable[[EntryPoint], Problem | None],
) -> Iterator[Finding]:
    """Judge loaded entry points; report equal failures in one module only once.

    ``read_source`` judges the source of an entry point. Its problem is used if it is more severe
    than the problem of loading, or if the entry point was not loaded.
    """
    groups: dict[tuple[str, str, str, bool], list[LoadedEntryPoint]] = {}
    for each in loaded.points:
        point = each.point
        if not each.callable and point.is_script:
            sentence = f"{point.describe()}: it is not callable, so the command fails"
            yield Problem(path=path, sentence=sentence, facts=(point.group, point.name))
        elif each.step.outcome is not Ending.OK and not names_file(point, package):
            alike = (each.step.name, describe_end(each.step), point.group, bool(point.extras))
            groups.setdefault(alike, []).append(each)
    failure = _Failure(package, path, loaded)
    for group in groups.values():
        rated, first = failure.judge(group), group[0]
        tops = [each.partition(".")[0] for each in (first.step.missing_module, first.point.module)]
        graver: dict[EntryPoint, Problem] = {}
        # if the package lacks the module, reading its source is of no use
        for point in (each.point for each in group if tops[0] != tops[1]):
            found = read_source(point)
            mild = isinstance(rated, Problem) and rated.level is not Level.ERROR
            if found and ((mild and found.level is Level.ERROR) or not isinstance(rated, Problem)):
                graver[point] = found
        yield from graver.values()
        if left := [each for each in group if each.point not in graver]:
            yield failure.judge(left)
    untried = {point: read_source(point) for point in loaded.untried}
    yield from filter(None, untried.values())
    if names := [point.name for point, problem in untried.items() if problem is None]:
        yield NotInspected(path=path, sentence=f"{name_first(names)} not loaded: {loaded.limit}")


class _Failure:
    """The facts that decide whose fault it is that an entry point cannot be loaded."""

    def __init__(self, package: Distribution, path: str, loaded: LoadedEntryPoints) -> None:
        self._package, self._path, self._loaded = package, path, loaded
        self._required = package.derive(_read_requirements)
        self._own = package.derive(ModuleFiles).roots
        self._for_any = "any" in package.platforms

    def judge(self, group: Sequence[LoadedEntryPoint]) -> Finding:
        """Judge entry points of one module that fail in the same way."""
        first, others = group[0], len(group) - 1
        noun = "entry point" if others == 1 else "entry points"
        more = f" (and {others} more {noun} of that module)" if others else ""
        sentence = f"{first.point.describe()}{more} {describe_end(first.step)}"
        why = find_own_part(first.step, self._package) or find_removed(
            first.step.missing_module, self._loaded.version
        )
        if doubt := "" if why else self._find_doubt(first):
            return NotInspected(path=self._path, sentence=f"{sentence}: {doubt}")
        lacks = ""
        if not why and self._loaded.requirements_installed:
            lacks = find_lacking_requirement(first.step, self._package)
        why = why or lacks
        broken = name_broken_source(first.step, self._package)
        raised = first.step.detail if first.step.outcome is Ending.RAISED else ""
        return Problem(
            path=self._path,
            sentence=f"{sentence}: {why}" if why else sentence,
            facts=(first.point.group, first.point.name, name_end(first.step)),
            level=self._rate(first, why, bool(lacks)),
            cause=name_lack(first.step, self._package, why) or broken or raised,
            consequence=bool(broken) or not first.imported,
        )

    def _find_doubt(self, each: LoadedEntryPoint) -> str:
        """Return why a sound package may fail in this way, or ""."""
        point, step = each.point, each.step
        if step.outcome in _ELSEWHERE:
            return _ELSEWHERE[step.outcome]
        lacking = _OF_MODULE.search(step.detail)
        if _needs_display(each, named=lacking is not None):
            return "it may need a display"
        if step.missing_module:
            return self._find_provider(point, step.missing_module)
        if lacking and self._for_any and not each.imported:
            module = lacking["module"] or lacking["from_module"]
            if module in VARY:
                return f"another system may have {module}.{lacking['name'] or lacking['from_name']}"
        certain = point.is_script or each.imported or each.exception in _OF_SYNTAX
        if certain or (point.group in HOST_OF and each.exception in _FAULTS):
            return ""
        return f"the program that loads entry points of {point.group} may have to run first"

    def _find_provider(self, point: EntryPoint, module: str) -> str:
        """Return the project that may provide a missing module, with a reason; "" if none may."""
        top, required = module.partition(".")[0], self._required
        wanted = frozenset(canonicalize_name(each.strip()) for each in point.extras.split(","))
        host, why = HOST_OF.get(point.group, ""), ""
        if top in sys.stdlib_module_names:
            why = explain_absence(module)
        elif wanted & required.extras or (
            canonicalize_name(top) in required.in_extras and not _lacks_target(point, module)
        ):
            why = f"only an extra requires {top}"
        elif top in self._own:
            why = ""
        elif self._loaded.lacking:
            names = name_first(self._loaded.lacking)
            why = f"the environment lacks {names}, which the package requires"
        elif self._for_any and required.elsewhere:
            why = "a requirement for another system may provide it"
        elif host and not point.is_script and host not in required.always:
            why = f"{host} is not required, so it was not installed"
        elif not host and not point.is_script:
            loads = f"the program that loads entry points of {point.group}"
            why = f"{loads} may provide the module {top}"
        return why

    def _rate(self, each: LoadedEntryPoint, why: str, lacks: bool) -> Level:
        if not each.point.is_always_loaded:
            return Level.WARNING
        if each.step.outcome is Ending.CRASHED:
            return Level.ERROR
        absent = lacks or each.exception == "PackageNotFoundError"
        is_other = not _lacks_target(each.point, each.step.missing_module)
        if absent and is_other and self._required.extras_may_add:
            return (
                Level.WARNING
            )  # an extra may provide it under another name, as PyYAML provides yaml
        return Level.ERROR if why or each.exception in _FAULTS else Level.WARNING


def _lacks_target(point: EntryPoint, missing: str) -> bool:
    """Return whether the module of a command is missing, for which the command names no extra."""
    inside = missing and f"{point.module}.".startswith(f"{missing}.")
    return bool(inside) and point.is_script and not point.extras


def _needs_display(each: LoadedEntryPoint, *, named: bool) -> bool:
    """Return whether the failure may be due to the lack of a display; ``named`` names are not."""
    if each.exception == "ImportError":
        return not named and bool(_LIBRARY_OF_DISPLAY.search(each.step.detail))
    if each.exception in _FAULTS:
        return False
    shown = each.point.group == "gui_scripts" and each.step.outcome is Ending.RAISED
    return shown or bool(_DISPLAY.search(each.step.detail))
