"""Which CUDA or ROCm a package is built for, as each of its sources states it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Platform(str, Enum):
    """Whose GPUs, as messages spell it."""

    CUDA = "CUDA"
    ROCM = "ROCm"


class ToolkitSource(str, Enum):
    """What states a version, the most visible to users first."""

    LABEL = "label"  # the local version label, the variant of an archive
    NAME = "name"  # the project's name
    FILE = "file"  # a generated file of the package
    ANSWER = "answer"  # an expression, evaluated in the installed package
    REQUIREMENT = "requirement"
    LIBRARY = "library"  # one that an object needs
    DEVICE_CODE = "device code"
    LOADED = "loaded"  # a runtime, as it says itself when it is loaded or installed


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolkitClaim:
    """One version that one source states."""

    platform: Platform
    version: str  # "12.6", "12"; "" states that the build is not for that platform
    source: ToolkitSource
    evidence: str  # "the version label +cu126": what says so, as the subject of a sentence
    path: str = ""  # of the file that says so, where it is one of the package's
    detail: str = ""
    """Of a needed library its name, and how many more objects need it; of a file its text."""

    is_label: bool = False  # of a file: it states the version with its label

    @property
    def statement(self) -> str:
        """The version with its platform, "CUDA 12.6"; "no CUDA"."""
        return (
            f"{self.platform.value} {self.version}" if self.version else f"no {self.platform.value}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadStatement:
    """A file that may state a version, and that could not be read."""

    path: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedToolkits:
    """What label, name, requirements and generated files of a package state; no code runs."""

    claims: tuple[ToolkitClaim, ...] = ()
    unread: tuple[UnreadStatement, ...] = ()
