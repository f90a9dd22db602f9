"""What a package lacks when an import fails: a part of its own, or a requirement.

The exception names a module or a file; the package's own members tell whose it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from binary_checks.knowledge.python_libraries import ModuleFiles
from binary_checks.model import Package, Step, Wheel
from binary_checks.model.packages import Distribution
from binary_checks.model.requires_dist import find_names_in_extras, read_requirement

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
        shipped = any(package.layout.inside(each.path) == path for each in package.members)
        return f"{path[:_LONGEST]} is not in {noun}" if own and not shipped else ""
    return ""


def _list_parents(name: str) -> Iterator[str]:
    """The packages around a module, the innermost first."""
    parts = name.split(".")[:_DEEPEST]
    return (".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))


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
    if canonicalize_name(top) in _list_names(package):
        return ""
    doubt = ", unless an extra has it" if find_names_in_extras(package.requires_dist) else ""
    return f"Requires-Dist lacks {top[:_LONGEST]}{doubt}"


def _list_names(package: Distribution) -> frozenset[str]:
    """The projects that it requires, on any system and by any extra."""
    found = filter(None, map(read_requirement, package.requires_dist))
    return frozenset(canonicalize_name(each.name) for each in found)
