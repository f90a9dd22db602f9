"""The modules of one package by their full names, parsed when they are executed."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from binary_checks.python_code.bound_names import BoundNames
from binary_checks.python_code.folding import Folder
from binary_checks.python_code.parsing import LeftAloneError, ParsingBudget, measure, parse
from binary_checks.python_code.possible_texts import UNKNOWN
from binary_checks.python_code.scopes import PythonScope
from binary_checks.python_code.windows_paths import Places

_MOST_COST = 25_000_000  # of all files together, as for what adds directories on Windows
_MOST_PARSED = 40_000_000  # what parsing them may cost; those of torch 2.13 take 26 million
_MOST_TOKENS = 450_000  # of all trees that are kept; torchvision's have 382,079
_STATEMENT = 128  # what it costs to execute one


@dataclass(slots=True)
class SourceModule:
    """A module that was parsed."""

    name: str
    path: str
    tree: ast.Module
    folder: Folder
    scopes: Mapping[ast.Call, PythonScope]
    names: dict[str, tuple[str, str]] = field(default_factory=dict)  # imported: module, attribute

    @property
    def package(self) -> str:
        """What a relative import counts from."""
        return self.name if _is_package(self.path) else self.name.rpartition(".")[0]


class OwnModules:
    """The Python files and extension modules of a package."""

    def __init__(
        self,
        sources: Mapping[str, bytes],
        extensions: Mapping[str, str],
        paths: Iterable[str],
        system: str,
    ) -> None:
        """Take the Python files by their paths from site-packages, and all paths of the package.

        ``extensions`` are the paths of its extension modules by their full names.
        """
        self._budget, paths = ParsingBudget(_MOST_COST), tuple(paths)
        self._parsing, self._tokens = ParsingBudget(_MOST_PARSED), ParsingBudget(_MOST_TOKENS)
        self._places = Places(paths, self._budget)
        self._contents = sources
        self._paths = {_module_name(path): path for path in sources}
        code = (path for path in paths if path.endswith(".py") and path not in sources)
        self._unread = frozenset(map(_module_name, code))  # too large, or one of too many
        self._extensions = extensions
        every = (*self._paths, *self._unread, *extensions)
        self._tops = {name.partition(".")[0] for name in every}
        self._parsed: dict[str, SourceModule | None] = {}
        self.system = system

    def nearest(self, path: str) -> str:
        """The innermost package that a file lies in, "" where there is none."""
        folder = path.rpartition("/")[0]
        while folder and folder.replace("/", ".") not in self._paths:
            folder = folder.rpartition("/")[0]
        return folder.replace("/", ".")

    def mentioning(self, word: str) -> list[str]:
        """The modules of Python code in which a word is."""
        return [name for name, path in self._paths.items() if word.encode() in self._contents[path]]

    def is_own(self, name: str) -> bool:
        """Whether the module's outermost package is the judged one's."""
        return name.partition(".")[0] in self._tops

    def extension(self, name: str) -> str | None:
        """The path of an extension module."""
        return self._extensions.get(name)

    def has(self, name: str) -> bool:
        """Whether there is such a module."""
        return name in self._paths or name in self._extensions

    def is_passed_over(self, name: str) -> bool:
        """Whether there is Python code of that module, and none that can be followed."""
        known = name in self._paths or name in self._unread
        return known and name not in self._extensions and self.source(name) is None

    def source(self, name: str) -> SourceModule | None:
        """A module of Python code, if it can be followed."""
        if name not in self._parsed:
            path = self._paths.get(name)
            self._parsed[name] = self._parse(name, path) if path is not None else None
        return self._parsed[name]

    def _parse(self, name: str, path: str) -> SourceModule | None:
        content = self._contents[path]
        self._budget.pay(len(content))
        try:
            self._tokens.pay(measure(content).tokens)
            tree = parse(content, self._parsing)
        except LeftAloneError:
            return None
        names = BoundNames(tree, self._budget)
        folder = Folder(path, names, self._places, self._budget)
        return SourceModule(
            name, path, tree, folder, {each.node: each.scope for each in names.calls}
        )

    def pay(self, loads: int = 0) -> None:
        """Pay for a statement, or for going over so many loads."""
        self._budget.pay(_STATEMENT + loads)

    def file(self, text: str) -> str | None:
        """The package's own file at a place that code computes."""
        return None if UNKNOWN in text else self._places.file(text)


def _module_name(path: str) -> str:
    stem = path.removesuffix(".py")
    return (stem.rpartition("/")[0] if _is_package(path) else stem).replace("/", ".")


def _is_package(path: str) -> bool:
    return path.rpartition("/")[2] == "__init__.py"
