"""Whether the modules and attributes of entry points exist."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.failed_imports import judge_loaded, names_file
from binary_checks.knowledge.python_libraries import ModuleFiles
from binary_checks.model import (
    Distribution,
    EntryPoint,
    Finding,
    Level,
    LoadedEntryPoints,
    NotInspected,
    Problem,
    PythonModules,
    read_entry_points,
)

_DEEPEST = 100  # nested packages, of a module's name
_LONGEST = 120  # characters of a value in a sentence


@check
def missing_entry_point(
    package: Distribution, modules: PythonModules, loaded: LoadedEntryPoints | None
) -> Iterator[Finding]:
    """An entry point cannot be loaded: its module or attribute is not there, or raises.

    If the package is installed, each entry point is loaded; the module of a command is imported in
    a process of its own. An entry point that needs an extra, a display or its host program is not
    inspected. If loading gives no answer, as for a module that exits, the source is read.

    Without an installation the source is read, and nothing of it is run: a name counts as existing
    if the module's top level binds it, even in a branch, a loop or a star import. Names that
    another distribution provides, that an extension module binds or that a module creates at run
    time (``__getattr__``, ``globals()``) are not inspected.

    Why: the command that users run ends with an ImportError or AttributeError; a plugin ends the
    program that loads it.
    Fix: correct the entry point, or include the module; if the module belongs to another project,
    ``Requires-Dist`` lacks that project.
    Level: an error for commands, and for pytest's plugins, which break every run; a warning for
    other groups, whose readers may skip entry points that do not load, and for exceptions that may
    not occur on another host or with other settings (an OSError, a KeyError).
    """
    if not package.entry_points:
        raise NotApplicable("no entry points")
    path = f"{package.dist_info}/entry_points.txt"
    points = list[EntryPoint]()
    for each in read_entry_points(package):
        if isinstance(each, EntryPoint):
            points.append(each)
        else:
            sentence = f"the command {each.name} = {each.value[:_LONGEST]} names no function"
            yield Problem(
                path=path,
                sentence=f"{sentence}: pip refuses to install the package",
                facts=(each.name,),
            )
    content = _Content(package, modules, path)
    if loaded is None:
        yield from filter(None, map(content.judge, points))
    else:
        yield from judge_loaded(loaded, package, path, content.find_problem)


class _Lack(NamedTuple):
    what: str
    doubt: str = ""  # what may provide it nevertheless
    unread: str = ""  # why it is not known


class _Content:
    """The modules of a package, with the names that entry points may refer to."""

    def __init__(self, package: Distribution, modules: PythonModules, path: str) -> None:
        self._package, self._path = package, path
        self._files = package.derive(ModuleFiles)
        self._names = {each.path: each for each in modules.names}
        self._leads_elsewhere = any(each.path.endswith(".pth") for each in package.members)
        self._requires = bool(package.requires_dist)
        self._unparsed = {each.path: each.reason for each in modules.unparsed}

    def find_problem(self, point: EntryPoint) -> Problem | None:
        """Return what is certainly wrong with an entry point; None if nothing is."""
        found = self.judge(point)
        return found if isinstance(found, Problem) else None

    def judge(self, point: EntryPoint) -> Problem | NotInspected | None:
        """Judge an entry point by the source; return None if everything exists."""
        lack = self._find_lack(point)
        if lack is None:
            return None
        if lack.unread or lack.doubt:
            what = lack.unread or f"{lack.what}, unless {lack.doubt}"
            return NotInspected(path=self._path, sentence=f"{point.describe()}: {what}")
        level = Level.ERROR if point.is_always_loaded else Level.WARNING
        sentence = f"{point.describe()}: {lack.what}"
        return Problem(
            path=self._path, sentence=sentence, facts=(point.group, point.name), level=level
        )

    def _find_lack(self, point: EntryPoint) -> _Lack | None:
        """Return what an entry point names and the package lacks; None if everything exists."""
        module, attribute = point.module, point.attribute.partition(".")[0]
        if module.partition(".")[0] in sys.stdlib_module_names or names_file(point, self._package):
            return None
        outer, _, last = module.rpartition(".")
        if not attribute and not self._files.has(module) and not point.is_always_loaded:
            # in the group fsspec.specs, "module.Class" names a class (huggingface_hub)
            module, attribute = outer, last
        if not module or not self._files.has(module):
            return _Lack(f"there is no module {point.module}", self._find_provider(point.module))
        if not attribute or self._files.has(f"{module}.{attribute}"):
            return None
        return self._find_attribute(module, attribute)

    def _find_attribute(self, module: str, attribute: str) -> _Lack | None:
        source = self._files.sources.get(module)
        if source is None and module in self._files.extensions:
            return _Lack(f"{attribute} is not looked for", f"the extension module {module} has it")
        if source is None:
            return _Lack(f"{module} is a folder without code, and has no {attribute}")
        found = self._names.get(source)
        if found is None and source in self._unparsed:
            return _Lack(attribute, unread=f"{source} is not parsed: {self._unparsed[source]}")
        # Another check reports a module that does not compile; each module has some names by
        # itself.
        if found is None or attribute in found.bound or attribute.startswith("__"):
            return None
        doubt = f"{found.opaque} makes it" if found.opaque else ""
        if found.stars:
            doubt = f"a star import of {found.stars[0]} may bind it"
        return _Lack(f"{module} binds no {attribute}", doubt)

    def _find_provider(self, module: str) -> str:
        """Return what may provide a module that is not in the package; "" if nothing may."""
        parts = module.split(".")
        parents = [".".join(parts[:count]) for count in range(1, min(len(parts), _DEEPEST))]
        inner = [parent for parent in parents if self._files.has(parent)]
        if self._leads_elsewhere:
            return "a .pth file leads to it"
        if (not inner or self._files.shares(inner[-1])) and self._requires:
            return "a required distribution has it"
        opened = (self._names.get(self._files.sources.get(each, "")) for each in inner)
        if any(
            each and (each.extends_path or each.fills_modules or "sys.modules" in each.opaque)
            for each in opened
        ):
            return f"{inner[-1]} finds it elsewhere"
        return ""
