"""Declaring checks, differences and gatherers: a function's signature is its whole declaration."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from typing import Any, Generic, ParamSpec

from binary_checks.errors import ProfileError
from binary_checks.model import (
    Change,
    ContentRequest,
    Finding,
    Installed,
    Level,
    ObjectFile,
    Place,
    ProbeReport,
)

_P = ParamSpec("_P")
_Fact = typing.TypeVar("_Fact")
_Answer = typing.TypeVar("_Answer")
Pattern = typing.NewType("Pattern", str)
"""The type of options that are regular expressions; an invalid expression is the profile's
fault.
"""

_OWN = "binary_checks.checks"
FAMILIES = {  # families of our own checks, which are pytest markers
    "published": "published files, before they are downloaded",
    "release": "the packages of one release, compared with each other",
    "metadata": "what the package declares: names, tags, versions",
    "upload": "what PyPI refuses",
    "configuration": "name, variables and bytes of the build, compared with each other",
    "archive": "the archive itself, and its RECORD",
    "contents": "files that do not belong in the package",
    "linkage": "needed libraries and where loaders search for them",
    "bundling": "bundled libraries",
    "symbols": "imported and exported symbols and their versions",
    "cxx_abi": "the C++ standard library's ABI",
    "python_abi": "the C API of Python",
    "python_code": "the package's own Python code, read without running it",
    "hardening": "object properties that loaders refuse or attackers exploit",
    "macos": "what macOS requires of libraries, programs and universal binaries",
    "windows": "loading of libraries on Windows, and mitigations there",
    "ios": "what iOS requires of libraries and of modules that an app moves",
    "android": "what Android's loader requires of libraries, by API level",
    "webassembly": "what the runtimes of Pyodide require of WebAssembly modules",
    "duplicates": "runtimes that must exist only once in a process",
    "cuda": "CUDA builds, checked without a GPU",
    "conda": "what only conda packages promise: dependencies, virtual packages, prefixes",
    "expected": "expectations of the profile: releases, libraries, search paths, snippets",
    "cpp_archive": "archives of C++ libraries: headers, files for CMake, static libraries",
    "gpu": "work on a GPU, which the host must have",
    "runtime": "installation, import and load in a clean environment",
    "consumer": "C++ programs, built against the package, linked and run",
    "crosscheck": "object files read by other libraries, and our simulation next to a process",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """A keyword-only parameter of a check, which a profile may set."""

    name: str
    annotation: Any  # the resolved type
    default: Any


class _Declared(Generic[_P, _Answer]):
    """A declared function; the types of its parameters name the facts that it needs."""

    def __init__(self, function: Callable[_P, _Answer]) -> None:
        update_wrapper(self, function)
        self.function: Callable[_P, _Answer] = function
        self.id = function.__name__.replace("_", "-")

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _Answer:
        """Call the function.

        A check yields a sentence, a Problem, a NotInspected or a Note for each thing found, and a
        difference a Change. A gatherer returns a fact, or raises NotApplicable, Unavailable,
        PackageError or GatherError.
        """
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.id}>"

    @cached_property
    def _plain(self) -> Any:
        """The undecorated function, whose signature is the declaration."""
        return inspect.unwrap(self.function)

    @cached_property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self._plain).parameters

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        """The types of the function's parameters by name. Raises NameError for an unknown type."""
        given = {
            name: hint for name, hint in self._plain.__annotations__.items() if name != "return"
        }
        bare = types.SimpleNamespace(__annotations__=given)
        return typing.get_type_hints(bare, self._plain.__globals__)

    @cached_property
    def facts(self) -> tuple[tuple[type, ...], ...]:
        """The classes that each parameter accepts, except those of options."""
        parameters = self._parameters.items()
        hints = [self._hint(name) for name, each in parameters if each.kind != each.KEYWORD_ONLY]
        unions = (typing.Union, types.UnionType)
        return tuple(
            tuple(typing.get_args(hint)) if typing.get_origin(hint) in unions else (hint,)
            for hint in hints
        )

    @property
    def subjects(self) -> tuple[type, ...]:
        """The classes of the first parameter: what a check judges, or a difference compares."""
        return self.facts[0]

    def _hint(self, name: str) -> Any:
        """Return a parameter's type. Raises ProfileError if it has none."""
        if name not in self._hints:
            raise ProfileError(f"{repr(self).strip('<>')}: parameter {name!r} has no type")
        return self._hints[name]


class Gatherer(_Declared[_P, _Fact]):
    """A declared gatherer."""

    def __init__(
        self, fact: type, function: Callable[_P, _Fact], wants: Sequence[ContentRequest] = ()
    ) -> None:
        super().__init__(function)
        self.fact = fact  # the class of the gathered fact
        self.wants = tuple(wants)  # the members whose contents the function needs

    def __repr__(self) -> str:
        return f"<gatherer of {self.fact.__name__}>"


def gathers(
    fact: type, *, wants: Sequence[ContentRequest] = ()
) -> Callable[[Callable[_P, _Fact]], Gatherer[_P, _Fact]]:
    """Declare the function that gathers a fact; each fact has only one gatherer.

    The types of the function's parameters name its inputs: a Package, a Place, a Request, the
    Profile or another fact. The inputs are gathered in order, once for each package, before the
    function is called. Nothing is installed in a Place at that time.

    ``wants`` are the members of the package whose contents the function needs. The contents are
    kept while the package is read, and are passed to the function as `MemberContents`.
    """
    return lambda function: Gatherer(fact, function, wants)


class Check(_Declared[_P, Iterator[Finding]]):
    """A declared check, which is called for each subject."""

    def __init__(
        self, function: Callable[_P, Iterator[Finding]], *, enabled: bool, level: Level
    ) -> None:
        super().__init__(function)
        self.enabled = enabled  # whether the check runs by default
        # level of the check's problems, unless a problem or the profile sets another
        self.level = level
        # the module's name, or the name of our file or folder of checks
        module = function.__module__
        own = module.removeprefix(f"{_OWN}.")
        self.family = module.rpartition(".")[2] if own == module else own.partition(".")[0]

    @cached_property
    def options(self) -> Mapping[str, Option]:
        """The check's options by name; a profile may set them."""
        return {
            name: Option(name=name, annotation=self._hint(name), default=each.default)
            for name, each in self._parameters.items()
            if each.kind == each.KEYWORD_ONLY
        }

    @property
    def judges_objects(self) -> bool:
        """Whether the check is called for each object file instead of once for a package."""
        return all(issubclass(kind, ObjectFile) for kind in self.subjects)

    @property
    def runs_package(self) -> bool:
        """Whether the check needs an installed package; false for ``Installed | None``."""
        needed = (kind for kinds in self.facts if types.NoneType not in kinds for kind in kinds)
        return any(kind is Place or issubclass(kind, (ProbeReport, Installed)) for kind in needed)

    @property
    def differs_by_place(self) -> bool:
        """Whether the verdict may differ between places; true if the check can run the package."""
        return self.runs_package or any(
            issubclass(kind, ProbeReport) for kinds in self.facts for kind in kinds
        )


class Difference(_Declared[_P, Iterator[Change]]):
    """A declared difference between the old and the new build: objects, a fact, or all of it."""


def difference(function: Callable[_P, Iterator[Change]], /) -> Difference[_P]:
    """Declare a difference; its two parameters are the old and the new value of one type."""
    return Difference(function)


def is_ours(kind: Any) -> bool:
    """Return whether a class or a function belongs to binary_checks rather than to a project."""
    return str(getattr(kind, "__module__", "")).startswith("binary_checks.")


@typing.overload
def check(function: Callable[_P, Iterator[Finding]], /) -> Check[_P]: ...
@typing.overload
def check(
    *, enabled: bool = True, level: Level = Level.ERROR
) -> Callable[[Callable[_P, Iterator[Finding]]], Check[_P]]: ...
def check(
    function: Callable[_P, Iterator[Finding]] | None = None,
    /,
    *,
    enabled: bool = True,
    level: Level = Level.ERROR,
) -> Check[_P] | Callable[[Callable[_P, Iterator[Finding]]], Check[_P]]:
    """Declare a check; with ``enabled=False`` it runs only if a profile asks for it.

    Problems of level warning are reported, but do not make the check fail.
    """
    if function is not None:
        return Check(function, enabled=enabled, level=level)
    return lambda function: Check(function, enabled=enabled, level=level)


def find_checks(modules: Iterable[types.ModuleType] = ()) -> tuple[Check[Any], ...]:
    """Return all checks of binary_checks and of these modules, sorted by family and id."""
    folder = importlib.import_module(_OWN).__path__
    own = (importlib.import_module(each.name) for each in pkgutil.walk_packages(folder, f"{_OWN}."))
    found = {
        id(value): value
        for module in (*own, *modules)
        for value in vars(module).values()
        if isinstance(value, Check)
    }
    return tuple(sorted(found.values(), key=lambda check: (check.family, check.id)))


def find_differences(modules: Iterable[types.ModuleType]) -> tuple[Difference[Any], ...]:
    """Return all differences of these modules, sorted by id."""
    found = {
        value.id: value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Difference)
    }
    return tuple(found[name] for name in sorted(found))


def find_gatherers(modules: Iterable[types.ModuleType]) -> dict[type, Gatherer[..., Any]]:
    """Map each fact to its gatherer in these modules.

    Raises ProfileError if a fact has two gatherers.
    """
    found: dict[type, Gatherer[..., Any]] = {}
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, Gatherer) and found.setdefault(value.fact, value) is not value:
                raise ProfileError(
                    f"{module.__name__}: a second function gathers the same fact: {value!r}"
                )
    return found


def load_checks(path: str, name: str) -> types.ModuleType:
    """Import the Python file at path as the module called name, without touching sys.path.

    Raises whatever the file raises when executed.
    """
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise ImportError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module
