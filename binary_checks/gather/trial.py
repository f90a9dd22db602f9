"""Installs a wheel once and runs the probes in it, each when its report is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from binary_checks import places
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
from binary_checks.model.requests import CudaRequest, GpuRequest, SnippetRequest
from binary_checks.model.snippet_report import SnippetReport
from binary_checks.probes.ask_module.reader import ask_without_gpu
from binary_checks.probes.gpu_torch.reader import use_gpu
from binary_checks.probes.import_name.reader import import_names
from binary_checks.probes.importable import find_extensions, find_import_names
from binary_checks.probes.load_extensions.reader import load_extensions
from binary_checks.probes.run_snippet.reader import run_snippets


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
        sandbox: places.Sandbox | None = None,
        builds: bool = False,
    ) -> None:
        self._timeout = timeout
        opened: Callable[..., places.Environment] = (
            partial(places.open_environment, package, with_=beside, builds=builds)
            if isinstance(package, Wheel)
            else partial(places.open_existing, package)
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
        names = find_import_names(self._environment.wheel, suffixes)
        return import_names(self._environment, names, timeout=self._timeout)

    def load_extensions(self) -> ExtensionReport:
        """Load every extension module."""
        suffixes = self._environment.target.extension_suffixes
        names = find_extensions(self._environment.wheel, suffixes)
        return load_extensions(self._environment, names, timeout=self._timeout)

    def run_snippets(self, request: SnippetRequest) -> SnippetReport:
        """Run the snippets of a profile.

        With requirements of their own they get an environment of their own: what an import of the
        package finds must not depend on them.
        """
        self._environment.require_installed()
        if not request.requires:
            return run_snippets(self._environment, request, timeout=self._timeout)
        with self._open(requires=request.requires) as own:
            return run_snippets(own, request, timeout=self._timeout)

    def ask_without_gpu(self, request: CudaRequest) -> CudaReport:
        """Ask the package about CUDA where it finds none."""
        return ask_without_gpu(self._environment, request, timeout=self._timeout)

    def use_gpu(self, request: GpuRequest, build: CudaRequest) -> GpuReport:
        """Have the package work on the host's GPUs."""
        return use_gpu(self._environment, request, build, timeout=self._timeout)

    def close(self) -> None:
        """Remove the environment."""
        self._environment.close()
