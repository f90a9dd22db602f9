"""What glibc's and musl's loaders differ in."""

from __future__ import annotations

from typing import Protocol

from binary_checks.loaders.directories import Directory
from binary_checks.model import ElfFile


class LoaderRules(Protocol):
    """What glibc's and musl's loaders differ in; the modules of these names say it."""

    @property
    def SKIPS_FOREIGN_FILES(self) -> bool:  # noqa: N802
        """Whether a file of another architecture is passed over."""

    @property
    def CHECKS_VERSIONS(self) -> bool:  # noqa: N802
        """Whether symbol versions count."""

    def hand_down(self, library: ElfFile, handed: tuple[Directory, ...]) -> tuple[Directory, ...]:
        """The places that a library's descendants inherit."""

    def search(self, library: ElfFile, handed: tuple[Directory, ...]) -> tuple[Directory, ...]:
        """The places for the library's own needs."""

    def names_of(self, library: ElfFile, requested: str) -> frozenset[str]:
        """The needed names that the library satisfies once it is loaded."""

    def preloaded(self, libraries: frozenset[str]) -> tuple[str, ...]:
        """What a Python process has from the start."""

    def brings(self, name: str, libraries: frozenset[str]) -> tuple[str, ...]:
        """What a library of the system has with it."""

    def answers_itself(self, name: str) -> bool:
        """Whether the loader takes itself for that library."""
