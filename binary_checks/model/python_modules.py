"""What a package's own Python modules are found to be, by reading them without running them."""

from __future__ import annotations

from dataclasses import dataclass

Minor = tuple[int, int]
"""A Python by its version: (3, 11)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokenSource:
    """A Python file that does not compile."""

    path: str  # of the member
    line: int  # 0: not known
    reason: str  # "invalid syntax"
    text: str = ""  # the line, or its beginning
    newer_than: Minor | None = None
    """It compiles here, but not on this Python, which the package promises; None: not here."""
    reached_from: str = ""
    """The module of the package that always imports the file, at once or through others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnparsedSource:
    """A Python file that was not parsed, and why."""

    path: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleNames:
    """What one module binds, of those that an entry point or a shared namespace concerns."""

    path: str
    bound: frozenset[str]  # at its top level, in any branch of it, and by ``global``
    opaque: str = ""
    """What makes names that reading does not show: "__getattr__", "globals()"; "" if nothing."""
    stars: tuple[str, ...] = ()  # the modules of others of which it takes every name
    extends_path: bool = False  # it shares its package: pkgutil, pkg_resources, or ``__path__``
    has_code: bool = False  # anything but comments and a docstring


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonSyntax:
    """All Python files of a package that an import may find, judged by their grammar."""

    grammar: Minor  # of the Python that parsed them
    broken: tuple[BrokenSource, ...] = ()
    unparsed: tuple[UnparsedSource, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonModules:
    """The modules that entry points name, or that other distributions may fill too."""

    names: tuple[ModuleNames, ...] = ()
    unparsed: tuple[UnparsedSource, ...] = ()
    top_level: tuple[str, ...] | None = None  # what top_level.txt states; None without one
