"""A toy place: a box is unpacked into the temporary folder of a place of this host."""

from __future__ import annotations

from dataclasses import replace

from binary_checks.model import InstallReport, Package
from binary_checks.places import HostPlace
from tests.extensions.toy_kind import Toy


class BoxPlace(HostPlace):
    """Where the members of a box lie as files."""

    serves = (Toy,)
    spelled = ("venv",)

    def _install(self, package: Package) -> InstallReport:
        assert isinstance(package, Toy)
        for member in package.members:
            (self.folder / member.path).write_text(member.path)
        self._target = self._identify(self.settings.python)
        self.limits = replace(self.limits, visible=(self.folder,))
        return InstallReport(python=self._target.name)
