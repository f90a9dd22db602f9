"""How a package is built: its configuration, the libraries linked in, the toolkits it states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from enum import Enum

from binary_checks.model.packages import Deriving


class ClaimSource(str, Enum):
    """Who says something of a package, the most trustworthy first."""

    BYTES = "bytes"  # its objects, or what kind of package it is by its content
    NAME = "name"  # the file's name, tags, version and build string included
    GIVEN = "given"  # the user, with --binary-configuration
    VARIABLE = "variable"  # an environment variable of the CI system


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigurationClaim:
    """One value that one source states."""

    value: str  # as this module's `BinaryConfiguration` spells it
    source: ClaimSource
    evidence: str  # "DESIRED_CUDA=cu126", "torch/lib/x.so needs libcudart.so.12"
    by_absence: bool = False  # nothing was found that says otherwise: the weakest of all
    outright: bool = False  # whether the user gives it for this very package


@dataclass(frozen=True, kw_only=True, slots=True)
class Aspect:
    """One field of a configuration: the value chosen, and every claim that was made of it.

    The value is that of the most trustworthy source (`ClaimSource`, claims by absence last), made
    as precise as any other source that agrees with it; several are joined by ", ".
    """

    value: str = ""  # "" where nothing says it
    claims: tuple[ConfigurationClaim, ...] = ()


_UNKNOWN = Aspect()


@dataclass(frozen=True, kw_only=True, slots=True)
class BinaryConfiguration:
    """Which of the many builds of one project a package is."""

    kind: Aspect = _UNKNOWN  # "wheel", "conda", "libtorch", "installed", ...
    python: Aspect = _UNKNOWN
    """ "3.11", "3.13t", "2.7mu", "3.9+" for it and later ones, "pypy 3.10"."""
    accelerator: Aspect = _UNKNOWN  # "cpu", "cuda 12.6", "cuda 12", "rocm 6.2", "xpu"
    system: Aspect = _UNKNOWN  # "linux", "macos", "windows"
    architecture: Aspect = _UNKNOWN  # "x86_64", "aarch64", ... for every system
    cxx_abi: Aspect = _UNKNOWN  # "cxx11" or "pre-cxx11": the std::string of libstdc++
    libtorch_variant: Aspect = _UNKNOWN  # "shared-with-deps", "static-without-deps", "shared"
    channel: Aspect = _UNKNOWN  # "stable", "nightly" or "test"
    version: Aspect = _UNKNOWN  # without its local label
    date: Aspect = _UNKNOWN  # of a nightly: "2026-01-01"

    def aspects(self) -> Iterator[tuple[str, Aspect]]:
        """Every field by its name, in the order of declaration."""
        return ((each.name, getattr(self, each.name)) for each in fields(self))


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedClaim:
    """What somebody outside of a package states of it."""

    aspect: str  # the name of a field of `BinaryConfiguration`
    claim: ConfigurationClaim
    files: str = ""  # a glob on the names of the files that it is about; "" for all of a run


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedConfiguration(Deriving):
    """What the user and the CI system state of the packages of a run."""

    claims: tuple[StatedClaim, ...] = ()
    file_names: tuple[str, ...] = ()  # of all packages of the run, in its order


ASPECTS = tuple(each.name for each in fields(BinaryConfiguration))


def find_disputes(
    name: str, claims: Iterable[ConfigurationClaim]
) -> Iterator[tuple[ConfigurationClaim, ConfigurationClaim]]:
    """Pairs of claims whose sources disagree: none of what one says fits any of the other's.

    The bytes of a package for several architectures claim each; so does a name with several tags.
    Variables are sources of their own, each.
    """
    groups: dict[tuple[ClaimSource, str], list[ConfigurationClaim]] = {}
    for claim in claims:
        alone = claim.evidence if claim.source is ClaimSource.VARIABLE else ""
        groups.setdefault((claim.source, alone), []).append(claim)
    listed = list(groups.values())
    for index, ones in enumerate(listed):
        for others in listed[index + 1 :]:
            if not any(agree(name, one.value, other.value) for one in ones for other in others):
                yield ones[0], others[0]


def agree(name: str, one: str, other: str) -> bool:
    """Whether two values of that aspect may be of the same package: "cuda 12" and "cuda 12.6"."""
    if one == other:
        return True
    if name == "python":
        return _fits(one, other) or _fits(other, one)
    if name in ("accelerator", "libtorch_variant"):
        return _extends(one, other) or _extends(other, one)
    if name == "channel":  # a release is tried out under its own version
        return {one, other} == {"stable", "test"}
    return name == "kind" and not {one, other} <= {"wheel", "conda", "libtorch"}


def _fits(one: str, lowest: str) -> bool:
    """Whether the first is one of "3.9+", or the more precise spelling of "2.7"."""
    if one.removesuffix("m").removesuffix("mu") == lowest and one.startswith("2."):
        return True
    if not lowest.endswith("+") or " " in one:
        return False
    numbers = one.rstrip("+tmu"), lowest.rstrip("+")
    (major, minor), (oldest, least) = (_split(each) for each in numbers)
    return major == oldest and minor >= least


def _split(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor or 0)


def _extends(one: str, other: str) -> bool:
    return one.startswith((f"{other} ", f"{other}.", f"{other}-"))


# How a package is linked with the libraries that it is built from: inside, beside, or unknown.


class Linking(str, Enum):
    """How a library comes into a process."""

    STATIC = "static"  # its code is part of the object
    DYNAMIC = "dynamic"  # the loader finds it, for the object needs it
    UNKNOWN = "unknown"  # something speaks of it, and does not tell


class Whence(str, Enum):
    """Where the file of a dynamic library comes from."""

    BUNDLED = "bundled"  # the package has it
    SYSTEM = "system"
    PYTHON = "python"
    REQUIRED = "required"  # another package that it requires
    MISSING = "missing"
    UNKNOWN = "unknown"  # the loader was not simulated


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedLibrary:
    """One library, in one way, of those objects of a package that have it so.

    A library that is not listed is not proven to be absent: nothing in the objects speaks of it.
    """

    name: str  # "OpenSSL"
    role: str  # "TLS": OpenSSL and BoringSSL stand in for each other
    linking: Linking
    version: str = ""  # as a text of the library tells it
    file: str = ""  # that is needed, "libssl.so.3"; "" of one that is static
    whence: Whence | None = None  # None of one that is static
    objects: int = 1  # that have it so
    evidence: str = ""  # which of them comes first, and what says so of it


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedLibraries:
    """All that is known of them."""

    libraries: tuple[LinkedLibrary, ...] = ()  # by role, name and linking
    compilers: tuple[str, ...] = ()  # that left their names: "GCC 14.2.1", "rustc 1.97.1"


# Which CUDA or ROCm a package is built for, as each of its sources states it.


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
