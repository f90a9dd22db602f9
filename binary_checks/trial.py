"""Installs a wheel once and runs the probes in it, each when its report is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from binary_checks import environments
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    CudaReport,
    ExtensionReport,
    GpuReport,
    ImportReport,
    InstalledPackage,
    InstallReport,
    Wheel,
)
from binary_checks.model.snippets import SnippetReport


class Trial:
    """A fresh environment with one wheel in it, or that in which a package lies installed.

    Making one raises Unavailable when the wheel cannot run here, and GatherError when the
    interpreter, the network or the machine broke; so do the probes.
    """

    def __init__(  # noqa: PLR0913 - one question of the user's each
        self,
        package: Wheel | InstalledPackage,
        *,
        python: Path,
        beside: tuple[Path, ...],
        timeout: float,
        sandbox: environments.Sandbox | None = None,
        builds: bool = False,
    ) -> None:
        self._timeout = timeout
        opened: Callable[..., environments.Environment] = (
            partial(environments.open_environment, package, with_=beside, builds=builds)
            if isinstance(package, Wheel)
            else partial(environments.open_existing, package)
        )
        self._open = partial(opened, python=python, timeout=timeout, sandbox=sandbox)
        self._environment = self._open()

    def install(self) -> InstallReport:
        """What the installation left behind."""
        if not isinstance(self._environment.wheel, Wheel):
            raise NotApplicable("the package was installed before")
        return self._environment.install_report

    def import_names(self) -> ImportReport:
        """Import each top-level name, each in a process of its own."""
        suffixes = self._environment.target.extension_suffixes
        names = environments.find_import_names(self._environment.wheel, suffixes)
        return environments.import_names(self._environment, names, timeout=self._timeout)

    def load_extensions(self) -> ExtensionReport:
        """Load every extension module."""
        suffixes = self._environment.target.extension_suffixes
        names = environments.find_extensions(self._environment.wheel, suffixes)
        return environments.load_extensions(self._environment, names, timeout=self._timeout)

    def run_snippets(self, options: Mapping[str, Any]) -> SnippetReport:
        """Run the snippets of a profile; ``options`` are those of the check that judges them.

        With requirements of their own they get an environment of their own: what an import of the
        package finds must not depend on them.
        """
        self._environment.require_installed()
        code, only = options.get("snippets", {}), options.get("only", {})
        requires = options.get("requires", ())
        if not requires:
            return environments.run_snippets(
                self._environment, code, only=only, timeout=self._timeout
            )
        with self._open(requires=requires) as own:
            return environments.run_snippets(own, code, only=only, timeout=self._timeout)

    def ask_without_gpu(self, options: Mapping[str, Mapping[str, Any]]) -> CudaReport:
        """Ask the package about CUDA where it finds none; ``options`` are the profile's."""
        questions = environments.read_questions(options)
        return environments.ask_without_gpu(self._environment, questions, timeout=self._timeout)

    def use_gpu(self, options: Mapping[str, Mapping[str, Any]]) -> GpuReport:
        """Have the package work on the host's GPUs; ``options`` are the profile's."""
        work = environments.read_work(options)
        return environments.use_gpu(self._environment, work, timeout=self._timeout)

    def close(self) -> None:
        """Remove the environment."""
        self._environment.close()
