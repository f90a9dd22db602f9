"""Which of a package's files are which Python modules."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from binary_checks.model.packages import Package
from binary_checks.model.python_modules import parse_extension_name

_TESTS = frozenset({"test", "tests", "testing", "conftest", "testdata", "test_data"})
"""Folders and files whose code users do not import."""
SHARED_PACKAGES = frozenset(
    {"google", "google.cloud", "google.api", "azure", "azure.mgmt", "sphinxcontrib", "zope"}
    | {"ruamel", "backports", "jaraco", "repoze", "collective", "plone", "opentelemetry", "zc"}
    | {"xstatic", "xstatic.pkg", "flaskext", "mpl_toolkits", "hydra_plugins", "odoo.addons"}
    | {"snowflake", "databricks", "airflow.providers", "ansible_collections", "PyObjCTools"}
    | {"dbt", "nvidia", "logilab", "lazr", "five", "z3c", "p4p", "cmeel.prefix"}
)
"""Packages that are nobody's: many distributions have parts of each."""
_DEEPEST = 100  # folders, within which modules lie


class ModuleFiles:
    """The modules of a package, by their full names."""

    def __init__(self, package: Package) -> None:
        self._package = package

    @cached_property
    def sources(self) -> dict[str, str]:
        """The Python files that an import may find, by the names of their modules."""
        found: dict[str, str] = {}
        for member in self._package.members:
            name = name_module(self._package.layout.inside(member.path) or "")
            if name and not found.get(name, "").endswith("/__init__.py"):  # a package comes first
                found[name] = member.path
        return found

    @cached_property
    def extensions(self) -> frozenset[str]:
        """The modules that are extension modules, or compiled Python alone."""
        return frozenset(filter(None, map(self._name_compiled, self._paths)))

    @cached_property
    def folders(self) -> frozenset[str]:
        """The folders that an import may take for packages, by the names that these have."""
        found: set[str] = set()
        for path in self._paths:
            parts = path.split("/")[:-1]
            found.update(".".join(parts[:count]) for count in range(1, len(parts) + 1))
        return frozenset(found)

    @cached_property
    def roots(self) -> frozenset[str]:
        """What lies at the top level of site-packages and can be imported."""
        every = {*self.sources, *self.extensions, *self.folders}
        return frozenset(name for name in every if "." not in name and name.isidentifier())

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        inside = (self._package.layout.inside(member.path) for member in self._package.members)
        paths = (path for path in inside if path and not path.endswith("/"))
        return tuple(path for path in paths if path.count("/") < _DEEPEST)

    def has(self, name: str) -> bool:
        """Whether there is such a module, as a file or as a folder."""
        return name in self.sources or name in self.extensions or name in self.folders

    def shares(self, name: str) -> bool:
        """Whether a package has no ``__init__``: others may have parts of it."""
        return name in self.folders and not (name in self.sources or name in self.extensions)

    @staticmethod
    def _name_compiled(path: str) -> str:
        if path.endswith(".pyc") and "/__pycache__/" not in f"/{path}":
            return name_module(path.removesuffix("c"))
        found = parse_extension_name(path)
        if found is None:
            return ""
        name = ".".join([*path.split("/")[:-1], found.stem])
        return name.removesuffix(".__init__")


def name_module(path: str) -> str:
    """The full name of the module that a Python file is, "" where no import finds it."""
    if not path.endswith(".py") or path.count("/") >= _DEEPEST:
        return ""
    parts = path.removesuffix(".py").split("/")
    if not all(map(str.isidentifier, parts)):
        return ""
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_for_tests(names: Iterable[str]) -> bool:
    """Whether a module, by the parts of its name, is one that users do not import."""
    return any(name in _TESTS or name.startswith("test_") for name in names)
