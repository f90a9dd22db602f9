"""Whether the modules and attributes of entry points exist."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

from packaging.utils import canonicalize_name

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.failed_imports import judge_loaded, names_file
from binary_checks.knowledge.python_libraries import (
    INTERPRETERS,
    SHARED_PACKAGES,
    ModuleFiles,
    is_named_after,
)
from binary_checks.model import (
    Distribution,
    EntryPoint,
    Finding,
    Level,
    LoadedEntryPoints,
    NotInspected,
    Problem,
    PythonModules,
    find_names,
    read_entry_points,
)
from binary_checks.safe_text import elide
from binary_checks.wording.problem_lines import OF_NO_FILES

_DEEPEST = 100  # nested packages, of a module's name
_REFUSED = {  # tried with pip 26.3 and uv 0.13.9
    r"^/|(?:^|/)\.\.?(?:/|$)": "leads out of the folder of commands: pip and uv refuse it",
    r"/": "has a slash: uv refuses it, and pip puts it where no shell looks for commands",
    r"[\[\]]": "has a bracket: pip refuses it",
    r"\s": "has a blank: pip drops everything in front of it from the name",
    rf"(?i)^(?:{INTERPRETERS})$": "overwrites the interpreter if pip installs it; uv refuses to",
}
"""Names of commands with which an installer refuses the package, or that it changes."""


@check
def missing_entry_point(
    package: Distribution, modules: PythonModules, loaded: LoadedEntryPoints | None
) -> Iterator[Finding]:
    """An entry point cannot be loaded: its module or attribute is not there, or raises.

    If the package is installed, each entry point is loaded; the module of a command is imported in
    a process of its own. An entry point that needs an extra, a display or its host program is not
    inspected. If loading gives no answer, as for a module that exits, the source is read.

    Without an installation the source is read, and nothing of it is run: a name counts as existing
    if the module's top level binds it, even in a branch, a loop or a star import. Names that an
    extension module binds or that a module creates at run time (``__getattr__``, ``globals()``)
    are not inspected, nor is a module that a required distribution provides by its name:
    ``llama-index-core`` may provide ``llama_index.cli``. A requirement of an extra counts only if
    the entry point names the extra (``demo.cli:main [cli]``).

    Why: the command that users run ends with an ImportError or AttributeError; a plugin ends the
    program that loads it.
    Fix: correct the entry point, or include the module; if the module belongs to another project,
    ``Requires-Dist`` lacks that project, or the entry point the extra that requires it.
    Level: an error for commands, and for pytest's plugins, which break every run; a warning for
    other groups, whose readers may skip entry points that do not load, for exceptions that may not
    occur on another host or with other settings (an OSError, a KeyError), and for a module of
    another name than the package's that a requirement with a third name might provide.
    """
    if not package.entry_points:
        raise NotApplicable("no entry points")
    path = f"{package.dist_info}/entry_points.txt"
    points = list[EntryPoint]()
    for each in read_entry_points(package):
        if isinstance(each, EntryPoint):
            points.append(each)
        else:
            sentence = f"the command {each.name} = {elide(each.value)} names no function"
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


@check
def command_name_refused(package: Distribution) -> Iterator[Finding]:
    """A command has a name that an installer refuses or changes, or that of the interpreter.

    Names that Windows alone does not allow are reported by name-invalid-on-windows.

    Why: pip or uv refuses to install the package; users do not find the command; or ``python`` is
    overwritten, and nothing in the environment starts any more.
    Fix: use letters, digits, dots, hyphens and underscores only, and not ``python3`` or the like.
    Level: users cannot install the package, start the command, or use the environment.
    """
    path = f"{package.dist_info}/entry_points.txt"
    for name in package.commands:
        fault = next((text for pattern, text in _REFUSED.items() if re.search(pattern, name)), "")
        if fault:
            sentence = f"the command {elide(name)!r} {fault}"
            yield Problem(path=path, sentence=sentence, facts=(name,))


class _Lack(NamedTuple):
    what: str
    doubt: str = ""  # what may provide it nevertheless
    unread: str = ""  # why it is not known
    certain: bool = True  # whether no requirement provides it under a third name


class _Content:
    """The modules of a package, with the names that entry points may refer to."""

    def __init__(self, package: Distribution, modules: PythonModules, path: str) -> None:
        self._package, self._path = package, path
        self._files = package.derive(ModuleFiles)
        self._names = {each.path: each for each in modules.names}
        self._leads_elsewhere = any(each.path.endswith(".pth") for each in package.members)
        self._is_empty = modules.advised is not None
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
        level = Level.ERROR if point.is_always_loaded and lack.certain else Level.WARNING
        sentence = f"{point.describe()}: {lack.what}"
        return Problem(
            path=self._path,
            sentence=sentence,
            facts=(point.group, point.name),
            level=level,
            cause=OF_NO_FILES if self._is_empty else "",
            consequence=self._is_empty,
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
            return self._find_provider(point)
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

    def _find_provider(self, point: EntryPoint) -> _Lack:
        """Return what may provide a module that is not in the package."""
        what, parts = f"there is no module {point.module}", point.module.split(".")
        parents = [".".join(parts[:count]) for count in range(1, min(len(parts), _DEEPEST))]
        inner = [parent for parent in parents if self._files.has(parent)]
        if self._leads_elsewhere:
            return _Lack(what, "a .pth file leads to it")
        if not inner or self._files.shares(inner[-1]):
            # the reader of a group may skip plugins that need an extra (django-q2)
            extras = bool(point.extras) or not point.is_script
            names = find_names(self._package.requires_dist, extras=extras)
            if any(is_named_after(name, parts[0]) for name in names):
                return _Lack(what, "a required distribution has it")
            own, root = map(canonicalize_name, (self._package.name, parts[0]))
            if names and ((root != own and not inner) or parts[0] in SHARED_PACKAGES):
                what = f"{what}, nor is any requirement named after {parts[0]}"
                return _Lack(what, certain=False)
        opened = (self._names.get(self._files.sources.get(each, "")) for each in inner)
        if any(
            each and (each.extends_path or each.fills_modules or "sys.modules" in each.opaque)
            for each in opened
        ):
            return _Lack(what, f"{inner[-1]} finds it elsewhere")
        return _Lack(what)
