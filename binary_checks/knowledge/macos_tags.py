"""Which macOS is claimed for each architecture, and what its platform tags mean."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from binary_checks.model import SystemClaim

_ARCHITECTURES = {
    "x86_64": ("x86_64",),
    "arm64": ("aarch64",),
    "universal2": ("x86_64", "aarch64"),
    "i386": ("i686",),
    "ppc": ("ppc",),
    "ppc64": ("ppc64",),
    "intel": ("i686", "x86_64"),
    "fat": ("i686", "ppc"),
    "fat3": ("i686", "x86_64", "ppc"),
    "fat32": ("i686", "x86_64", "ppc"),
    "fat64": ("x86_64", "ppc64"),
    "universal": ("i686", "x86_64", "ppc", "ppc64"),
}
_VARIANTS = {"x86_64h": "x86_64", "arm64e": "aarch64"}
FIRST_BY_YEARS = 11
"""Since then the first number alone tells one system from the next, and tags know no other."""
_FIRST_WITH_ARM64 = (11, 0)
_LAST_BEFORE = (10, 16)  # what macOS 11 calls itself to programs that are older


@dataclass(frozen=True, kw_only=True, slots=True)
class MacTag:
    """A platform tag of macOS, taken apart."""

    platform: str
    version: tuple[int, int]
    architectures: tuple[str, ...]

    @property
    def is_looked_for(self) -> bool:
        """Whether an installer looks for it on any system, as ``packaging.tags`` lists them."""
        major, minor = self.version
        if major >= FIRST_BY_YEARS:
            return minor == 0
        return self.version <= _LAST_BEFORE and self.architectures != ("aarch64",)


def parse_mac_tag(platform: str) -> MacTag | None:
    """Take a platform tag apart; None where it is no tag of macOS that anybody has defined."""
    system, _, rest = platform.partition("_")
    major, _, rest = rest.partition("_")
    minor, _, processor = rest.partition("_")
    numbers = (major, minor)
    if system != "macosx" or not all(n.isascii() and n.isdecimal() for n in numbers):
        return None
    if processor not in _ARCHITECTURES:
        return None
    version = int(major), int(minor)
    return MacTag(platform=platform, version=version, architectures=_ARCHITECTURES[processor])


def lowest_claims(systems: Iterable[SystemClaim]) -> dict[str, tuple[tuple[int, int], str]]:
    """The oldest macOS that is claimed for each architecture, and the claim's name.

    Every tag of a compressed set is a claim. No system for arm64 is older than macOS 11.
    """
    claims: dict[str, tuple[tuple[int, int], str]] = {}
    for system in systems:
        if system.system != "macos" or system.minimum is None:
            continue
        for architecture in system.architectures:
            floor = _FIRST_WITH_ARM64 if architecture == "aarch64" else (0, 0)
            claim = max(_modern(system.minimum), floor), system.name
            claims[architecture] = min(claim, claims.get(architecture, claim))
    return claims


def read_version(version: str) -> tuple[int, int]:
    """Read "10.9" or "11.0.1": what tags cannot tell apart, the third number, does not count."""
    major, _, rest = version.partition(".")
    return _modern((int(major), int(rest.partition(".")[0] or 0)))


def _modern(version: tuple[int, int]) -> tuple[int, int]:
    return _FIRST_WITH_ARM64 if version == _LAST_BEFORE else version


def plain_architecture(architecture: str) -> str:
    """The architecture that tags speak of, for those that newer CPUs alone run too."""
    return _VARIANTS.get(architecture, architecture)


def spell_processor(architecture: str) -> str:
    """The name that macOS, its tools and platform tags have for an architecture."""
    return {"aarch64": "arm64", "i686": "i386"}.get(architecture, architecture)
