"""Python's own libraries and symbols, and the modules that files implement."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from packaging.utils import canonicalize_name

from binary_checks.model import (
    CodeNames,
    Format,
    MachOFile,
    ObjectFile,
    Package,
    PeFile,
    PythonClaim,
    export_hook,
    init_function,
    is_extension,
    parse_extension_name,
)

# The interpreter that a DLL name belongs to, and the interpreter DLLs that a module may need.

_PYTHON = r"(?:lib)?python[23]\.?\d*t?(?:_d)?\.dll|libpypy\d\.\d+-c\.dll|python-native\.dll"
_STABLE = {"abi3": "python3.dll", "abi3t": "python3t.dll"}


@functools.lru_cache(maxsize=4096)  # the objects of a package need the same few libraries
def is_python_dll(name: str) -> bool:
    """Return whether a DLL name is the name of an interpreter.

    Debug builds, MSYS2 and GraalPy are included.
    """
    return re.fullmatch(_PYTHON, name.lower()) is not None


def is_of_one_version(name: str) -> bool:
    """Return whether a DLL is for a single Python version instead of the stable ABI."""
    return is_python_dll(name) and name.lower() not in _STABLE.values()


def are_for_any_python(pythons: tuple[PythonClaim, ...]) -> bool:
    """Return whether every Python of a major version is claimed (``py3-none``)."""
    return bool(pythons) and all(not each.implementation for each in pythons)


def acceptable_dlls(library: PeFile, pythons: tuple[PythonClaim, ...]) -> tuple[str, ...]:
    """Return the interpreter DLLs that an object may need; () if the claims promise nothing.

    A version in the file name takes precedence over the claims: a package may contain modules for
    several Pythons. A claim for every Python 3 promises something only for extension modules.
    """
    name = parse_extension_name(library.path)
    if name is not None and name.version is not None:
        return _name_dlls(name.implementation, name.version, free_threaded=name.free_threaded)
    if are_for_any_python(pythons):
        return ("python3.dll",) if is_extension(library) else ()
    accepted = [_of_claim(each) for each in pythons]
    return tuple(dict.fromkeys(sum(accepted, ()))) if all(accepted) else ()


def _name_dlls(
    implementation: str, version: tuple[int, int], *, free_threaded: bool
) -> tuple[str, ...]:
    """Return the DLLs of one Python: its own, and the stable ABI's, which can replace it."""
    major, minor = version
    flags = "t" if free_threaded else ""
    known = {
        "pypy": (f"libpypy{major}.{minor}-c.dll",),
        "cpython": (f"python{major}{minor}{flags}.dll", f"python{major}{flags}.dll"),
    }
    return known.get(implementation, ())


def _of_claim(claim: PythonClaim) -> tuple[str, ...]:
    if claim.abi in _STABLE:
        return (_STABLE[claim.abi],)
    if claim.version is None:
        return ()
    return _name_dlls(claim.implementation, claim.version, free_threaded=claim.free_threaded)


# Libraries that define symbols with names like Python's, by the object's format or the loader.

_PREFIXES = ("Py", "_Py")
_INIT = "PyInit"  # defined by modules
_FIRST_WITH_HOOK = (3, 15)  # PyModExport_<name> (PEP 793)
_PROGRAM = "@executable"  # Python itself, in an object that Python loads
_DYLIB = (
    r"(?:.*/)?(?:Python3?\.framework/(?:Versions/3\.\d+t?/)?Python3?|libpython3(?:\.\d+t?)?\.dylib)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonSymbols:
    """The symbols that an object needs and that are named like functions of the C API."""

    asked: frozenset[str]  # imported from Python by name, as always in PE
    anywhere: frozenset[str]  # looked up in all loaded objects, as always in ELF

    @property
    def names(self) -> frozenset[str]:
        """All names, however they are looked up."""
        return self.asked | self.anywhere


def find_python_symbols(library: ObjectFile, only: frozenset[str] | None = None) -> PythonSymbols:
    """Return an object's symbols of the C API; with ``only``, those among the given names.

    Symbols imported by name from another library than Python are left out: libshiboken6 has its own
    PyRun_String, which PySide6 imports from it on macOS and Windows.
    """
    asked: set[str] = set()
    anywhere: set[str] = set()
    for provider, names in _group_by_provider(library, only):
        if _is_python(provider, library):
            asked.update(filter(_looks_pythons, names))
        elif not provider:
            anywhere.update(filter(_looks_pythons, names))
    anywhere -= asked
    anywhere -= library.exports.among(anywhere)
    return PythonSymbols(asked=frozenset(asked), anywhere=frozenset(anywhere))


def _looks_pythons(name: str) -> bool:
    return name.startswith(_PREFIXES) and not name.startswith(_INIT)


def _group_by_provider(
    library: ObjectFile, only: frozenset[str] | None
) -> Iterator[tuple[str, Collection[str]]]:
    """Yield the symbols that must not be missing, by the library that they are imported from.

    The library is "" for symbols that are looked up everywhere. In ELF, the first loaded definition
    is used; version nodes do not matter.
    """
    if library.format != Format.ELF:
        for provider, asked in library.imports.strong.items():
            yield provider, asked if only is None else asked & only
        return
    imports = library.imports
    names = filter(_looks_pythons, imports.names if only is None else imports.among(only))
    yield "", [n for n in names if any(not each.weak for each in imports.find(n))]


def _is_python(provider: str, library: ObjectFile) -> bool:
    """Return whether imports from this library are imports from the interpreter."""
    if isinstance(library, PeFile):
        return is_python_dll(provider)
    if isinstance(library, MachOFile):
        if provider == _PROGRAM:
            return True
        return "ython" in provider and re.fullmatch(_DYLIB, provider) is not None
    return False


# Whether a file that is named like an extension module is one.


_OLD_START = "Py_InitModule"


def find_old_init_fault(library: ObjectFile) -> str:
    """Return why Python 2 cannot import a module, or "".

    The file names of Python 2's modules have no tag. A file is a module if it registers one: it
    calls Py_InitModule4 or a similar function.
    """
    name = parse_extension_name(library.path)
    if name is None or not any(_OLD_START in each for each in library.imports.names):
        return ""
    function = f"init{name.stem}"
    others = sorted(item for item in library.exports.names if item.startswith("init"))
    # the name of the module spam may be spammodule.so, too (Python 2's imp.get_suffixes())
    if function in others or function.removesuffix("module") in others:
        return ""
    return f"exports {others[0]} instead of {function}" if others else f"does not export {function}"


def find_init_fault(library: ObjectFile, package: Package, code: CodeNames) -> str:
    """Return why a file that is named like an extension module cannot be imported; "" for others.

    A file may be something else than a module if the package's own code or another object opens it
    by its name, or if it uses no Python API.
    """
    name = parse_extension_name(library.path)
    if name is None or not (name.tagged or name.suffix == ".pyd"):
        return ""  # plain libraries on Windows are named .dll
    function, hook = init_function(name.stem), export_hook(name.stem)
    named = code.named | code.assembled
    if library.exports.among((function,)) or library.path in named:
        return ""
    if library.exports.among((hook,)):
        # the hook of PEP 793 alone, without PyInit
        versions = (claim.version for claim in package.claims.pythons if claim.version)
        older = min((each for each in versions if each < _FIRST_WITH_HOOK), default=None)
        lack = "exports {}, which Python {}.{} does not call, and no PyInit"
        return lack.format(hook, *older) if older else ""
    others = sorted(
        item for item in library.exports.names if item.startswith(("PyInit_", "PyInitU_"))
    )
    imported = others and any(
        init_function(module.rpartition(".")[2]) in others for module in code.modules
    )
    if imported or library.file_name in package.derive(_find_used):
        return ""
    if others:
        return f"exports {others[0]} instead of {function}"
    return f"does not export {function}" if find_python_symbols(library).names else ""


def is_for_java(library: ObjectFile) -> bool:
    """Return whether a Java virtual machine may load the library, by the function that it calls."""
    return bool(library.exports.among(("JNI_OnLoad",)))


def _find_used(package: Package) -> frozenset[str]:
    """Return the names of files that objects of the package need or open."""
    found: set[str] = set()
    for item in package.objects:
        found.update(need.name.rpartition("/")[2] for need in item.needed)
        found.update(item.opened.names if item.opened else ())
    return frozenset(found)


# Python modules implemented by a package's files.

_TESTS = frozenset({"test", "tests", "testing", "conftest", "testdata", "test_data"})
"""Folders and files whose code users do not import."""
SHARED_PACKAGES = frozenset(
    {"google", "google.cloud", "google.api", "azure", "azure.mgmt", "sphinxcontrib", "zope"}
    | {"ruamel", "backports", "jaraco", "repoze", "collective", "plone", "opentelemetry", "zc"}
    | {"xstatic", "xstatic.pkg", "flaskext", "mpl_toolkits", "hydra_plugins", "odoo.addons"}
    | {"snowflake", "databricks", "airflow.providers", "ansible_collections", "PyObjCTools"}
    | {"dbt", "nvidia", "logilab", "lazr", "five", "z3c", "p4p", "cmeel.prefix"}
)
"""Packages to which many distributions contribute."""
WITH_EMPTY_FILE = frozenset({"nvidia"})
"""Shared packages of which each distribution has an empty ``__init__.py``, so that all of them work
together in one folder (``unzip -l`` of nvidia-cublas-cu12 12.4.5.8 and nvidia-cudnn-cu12 9.1.0.70).
"""
INTERPRETERS = r"pythonw|(?:python|pypy|graalpy)(?:3(?:\.\d+t?)?)?"
"""Names of the interpreter in an environment. uv 0.13.9 refuses a script with one, in any case
("Scripts must not use the reserved name"); pip 26.3 overwrites the file.
"""
OF_INSTALLERS = {
    "pip": "pip",
    "setuptools": "setuptools",
    "_distutils_hack": "setuptools",
    "wheel": "wheel",
}
"""Packages that environments have beforehand (ensurepip, virtualenv), with the projects that own
them.
"""
_DEEPEST = 100  # limit of nested folders of a module


class ModuleFiles:
    """The modules of a package, by full name."""

    def __init__(self, package: Package) -> None:
        self._package = package

    @cached_property
    def sources(self) -> dict[str, str]:
        """The importable Python files, by module name."""
        found: dict[str, str] = {}
        for member in self._package.members:
            name = name_module(self._package.layout.inside(member.path) or "")
            # a package takes precedence over a module
            if name and not found.get(name, "").endswith("/__init__.py"):
                found[name] = member.path
        return found

    @cached_property
    def extensions(self) -> frozenset[str]:
        """The names of extension modules and of modules that are only bytecode."""
        return frozenset(filter(None, map(self._name_compiled, self._paths)))

    @cached_property
    def folders(self) -> frozenset[str]:
        """The names of folders that can be imported as packages."""
        found: set[str] = set()
        for path in self._paths:
            parts = path.split("/")[:-1]
            found.update(".".join(parts[:count]) for count in range(1, len(parts) + 1))
        return frozenset(found)

    @cached_property
    def roots(self) -> frozenset[str]:
        """Importable names at the top level of site-packages."""
        every = {*self.sources, *self.extensions, *self.folders}
        return frozenset(name for name in every if "." not in name and name.isidentifier())

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        inside = (self._package.layout.inside(member.path) for member in self._package.members)
        paths = (path for path in inside if path and not path.endswith("/"))
        return tuple(path for path in paths if path.count("/") < _DEEPEST)

    def has(self, name: str) -> bool:
        """Return whether a module of that name exists, as a file or as a folder."""
        return name in self.sources or name in self.extensions or name in self.folders

    def shares(self, name: str) -> bool:
        """Return whether the name is a package without ``__init__``, which others may extend."""
        return name in self.folders and not (name in self.sources or name in self.extensions)

    @staticmethod
    def _name_compiled(path: str) -> str:
        if path.endswith(".pyc") and "/__pycache__/" not in f"/{path}":
            return name_module(path.removesuffix("c"))
        found = parse_extension_name(path)
        if found is None:
            return ""
        return ".".join([*path.split("/")[:-1], found.stem]).removesuffix(".__init__")


def name_module(path: str) -> str:
    """Return the full module name of a Python file, or "" if it cannot be imported."""
    if not path.endswith(".py") or path.count("/") >= _DEEPEST:
        return ""
    parts = path.removesuffix(".py").split("/")
    if not all(map(str.isidentifier, parts)):
        return ""
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_named_after(project: str, module: str) -> bool:
    """Return whether the words of a module's name are in a project's name.

    ``llama-index-core`` is named after ``llama_index``, ``python-dotenv`` after ``dotenv``.
    """
    return f"-{canonicalize_name(module)}-" in f"-{canonicalize_name(project)}-"


def is_for_tests(names: Iterable[str]) -> bool:
    """Return whether the parts of a module's name show that users do not import it."""
    return any(
        name in _TESTS or name.startswith("test_") or name.endswith(("_test", "_benchmark"))
        for name in names
    )
