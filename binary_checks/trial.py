"""Installs a wheel once and runs the probes in it, each when its report is asked for."""

from __future__ import annotations

from pathlib import Path

from binary_checks import environments
from binary_checks.model import ExtensionReport, ImportReport, InstallReport, Wheel


class Trial:
    """A fresh environment with one wheel in it.

    Making one raises Unavailable when the wheel cannot run here, and GatherError when the
    interpreter, the network or the machine broke; so do the probes.
    """

    def __init__(
        self, wheel: Wheel, *, python: Path, beside: tuple[Path, ...], timeout: float
    ) -> None:
        self._timeout = timeout
        self._environment = environments.open_environment(
            wheel, python=python, with_=beside, timeout=timeout
        )

    def install(self) -> InstallReport:
        """What the installation left behind."""
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

    def close(self) -> None:
        """Remove the environment."""
        self._environment.close()
