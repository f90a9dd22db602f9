"""Finds what a package's own code has loaded by the time that it loads one of its objects."""

from __future__ import annotations

from collections.abc import Mapping

from binary_checks.python_code.execution import Execution, Load
from binary_checks.python_code.own_modules import OwnModules
from binary_checks.python_code.parsing import LeftAloneError

_MOST_RUNS = 24  # of modules that may load one object


class ImportOrder:
    """The modules of one package, and what importing each of them loads."""

    def __init__(
        self, modules: OwnModules, libraries: Mapping[str, frozenset[str]] | None = None
    ) -> None:
        """``libraries``: the package's object files by all that code may write for them."""
        self._modules, self._libraries = modules, libraries
        self.followed = True  # all that was asked of it, to the end
        self._runs: dict[str, Execution] = {}

    def import_module(self, name: str) -> tuple[Load, ...]:
        """All that importing a module loads, in order."""
        return tuple(self._run(name).state.loads)

    def openings(self, name: str) -> Mapping[str, bool]:
        """The object files that importing a module opens, and whether it goes on without each."""
        return self._run(name).state.opened

    def before(self, path: str, name: str) -> tuple[Load, ...]:
        """What is loaded before the file at that path, the extension module of that name if any.

        That is what its parents' code loads; and if only code of the package is meant to load it,
        a private module or a library that is opened by its path, what all that code does before.
        """
        stem = (name or path.rpartition("/")[2].partition(".")[0]).rpartition(".")[2]
        direct = self._run(name or self._modules.nearest(path))
        found = [direct.before.get(path, tuple(direct.state.loads))]
        if path not in direct.before or (name and stem.startswith("_")):
            mentioning = self._modules.mentioning(stem)[:_MOST_RUNS]
            runs = (self._run(module) for module in mentioning)
            loading = [run.before[path] for run in runs if path in run.before]
            if loading:
                found = loading
        common = set(found[0]).intersection(*found[1:])
        return tuple(load for load in found[0] if load in common)

    def _run(self, name: str) -> Execution:
        if name not in self._runs:
            run = self._runs[name] = Execution(self._modules, self._libraries)
            try:
                run.import_name(name)
            except (LeftAloneError, RecursionError):  # what came before counts
                self.followed = False
            self.followed = self.followed and run.followed
        return self._runs[name]
