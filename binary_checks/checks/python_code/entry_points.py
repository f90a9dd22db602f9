"""Whether what entry points name is there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.python_libraries import ModuleFiles
from binary_checks.model import Distribution, Finding, Level, NotInspected, Problem
from binary_checks.model.python_modules import PythonModules

_REFERENCE = re.compile(
    r"\s*(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*)\s*"
    r"(?::\s*(?P<attribute>[^\W\d]\w*(?:\.[^\W\d]\w*)*)\s*)?(?:\[[^\]]*\]\s*)?"
)
_SCRIPTS = frozenset({"console_scripts", "gui_scripts"})
_ALWAYS_LOADED = _SCRIPTS | {"pytest11"}
"""Groups whose entry points users run, or load with any use of the program that looks for them."""
_DEEPEST = 100  # folders, within which modules lie
_LONGEST = 120  # characters of a value in a sentence


class _Point(NamedTuple):
    group: str
    name: str
    module: str
    attribute: str

    def say(self) -> str:
        target = f"{self.module}:{self.attribute}" if self.attribute else self.module
        what = "the command" if self.group in _SCRIPTS else f"the entry point {self.group!r}"
        return f"{what} {self.name} = {target}"


@check
def missing_entry_point(package: Distribution, modules: PythonModules) -> Iterator[Finding]:
    """An entry point names a module or an attribute that is not there.

    The source is read, and nothing of it is run: a name counts as there wherever the module's top
    level binds it, in a branch, a loop or a star import too. What another distribution may
    contribute, what an extension module binds and what a module makes up (``__getattr__``,
    ``globals()``) is not inspected.

    Why: the command that users run ends with an ImportError or AttributeError; a plugin takes the
    program down that loads it.
    Fix: correct the entry point, or include the module.
    Level: an error for commands, and for pytest's plugins, which break every run; a warning for
    other groups, whose readers may skip what they cannot load.
    """
    if not package.entry_points:
        raise NotApplicable("no entry points")
    content = _Content(package, modules)
    path = f"{package.dist_info}/entry_points.txt"
    for group, name, value in package.entry_points:
        match = _REFERENCE.fullmatch(value)
        if match is None or (group in _SCRIPTS and not match["attribute"]):
            if group in _SCRIPTS:
                sentence = f"the command {name} = {value[:_LONGEST]} names no function: pip refuses"
                yield Problem(path=path, sentence=f"{sentence} to install the package")
            continue  # other groups may have values of their own form
        point = _Point(group, name, match["module"], match["attribute"] or "")
        lack = content.find_lack(point)
        if lack is not None and lack.unread:
            yield NotInspected(path=path, sentence=f"{point.say()}: {lack.unread}")
        elif lack is not None and lack.doubt:
            sentence = f"{point.say()}: {lack.what}, unless {lack.doubt}"
            yield NotInspected(path=path, sentence=sentence)
        elif lack is not None:
            level = Level.ERROR if group in _ALWAYS_LOADED else Level.WARNING
            yield Problem(path=path, sentence=f"{point.say()}: {lack.what}", level=level)


class _Lack(NamedTuple):
    what: str
    doubt: str = ""  # what may bring it nevertheless
    unread: str = ""  # why nobody knows


class _Content:
    """The modules of a package, asked for what entry points name."""

    def __init__(self, package: Distribution, modules: PythonModules) -> None:
        self._files = package.derive(ModuleFiles)
        self._names = {each.path: each for each in modules.names}
        self._leads_elsewhere = any(each.path.endswith(".pth") for each in package.members)
        self._requires = bool(package.requires_dist)
        self._unparsed = {each.path: each.reason for each in modules.unparsed}

    def find_lack(self, point: _Point) -> _Lack | None:
        """What of an entry point is not there; None where all is."""
        module, attribute = point.module, point.attribute.partition(".")[0]
        if module.partition(".")[0] in sys.stdlib_module_names:
            return None
        outer, _, last = module.rpartition(".")
        if not attribute and not self._files.has(module) and point.group not in _ALWAYS_LOADED:
            module, attribute = outer, last  # fsspec.specs names a class so (huggingface_hub)
        if not module or not self._files.has(module):
            return _Lack(f"there is no module {point.module}", self._find_bringer(point.module))
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
        # What does not compile is reported by another check; each module has some names.
        if found is None or attribute in found.bound or attribute.startswith("__"):
            return None
        doubt = f"{found.opaque} makes it" if found.opaque else ""
        if found.stars:
            doubt = f"it comes with all of {found.stars[0]}"
        return _Lack(f"{module} binds no {attribute}", doubt)

    def _find_bringer(self, module: str) -> str:
        """What may have a module that is not in the package: "" for nothing."""
        parts = module.split(".")
        parents = [".".join(parts[:count]) for count in range(1, min(len(parts), _DEEPEST))]
        inner = [parent for parent in parents if self._files.has(parent)]
        if self._leads_elsewhere:
            return "a .pth file leads to it"
        if (not inner or self._files.shares(inner[-1])) and self._requires:
            return "a required distribution has it"
        opened = (self._names.get(self._files.sources.get(each, "")) for each in inner)
        if any(each and (each.extends_path or "sys.modules" in each.opaque) for each in opened):
            return f"{inner[-1]} finds it elsewhere"
        return ""
