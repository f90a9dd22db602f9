"""Object files that nothing describes: a folder of them, or one by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from binary_checks.model.packages import Package


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectFolder(Package):
    """The files of a folder, without metadata that say what they are."""

    noun: ClassVar[str] = "a folder"

    @property
    def file_name(self) -> str:
        """The folder's name, with a slash."""
        return f"{self.path.name}/"


@dataclass(frozen=True, kw_only=True, slots=True)
class SingleObject(Package):
    """One object file, or a universal one with its slices, without the package that it is for."""

    noun: ClassVar[str] = "a single object file"
