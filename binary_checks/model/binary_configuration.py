"""How a package is built: its configuration, linked libraries and stated toolkits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from enum import Enum
from itertools import combinations

from packaging.version import Version

from binary_checks.model.packages import Deriving
from binary_checks.model.system import read_numbers


class ClaimSource(str, Enum):
    """The source of a claim about a package, the most trustworthy first."""

    BYTES = "bytes"  # its object files, or the kind of package by its contents
    NAME = "name"  # the file name, including tags, version and build string
    GIVEN = "given"  # the user, with --binary-configuration
    VARIABLE = "variable"  # an environment variable of the CI system


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigurationClaim:
    """One value stated by one source."""

    value: str  # spelled as in `BinaryConfiguration`
    source: ClaimSource
    evidence: str  # "DESIRED_CUDA=cu126", "torch/lib/x.so needs libcudart.so.12"
    by_absence: bool = False  # inferred because nothing states another value: the weakest claim
    outright: bool = False  # the user states it for this package by name
    full: str = ""  # a version with its local label, if the source states the whole version

    @property
    def shown(self) -> str:
        """The value as the source states it."""
        return self.full or self.value


@dataclass(frozen=True, kw_only=True, slots=True)
class Aspect:
    """One field of a configuration: the chosen value and every claim about it.

    The value comes from the most trustworthy source (`ClaimSource`; claims by absence come last).
    If another source agrees and is more precise, its precision is taken over. Several values are
    joined by ", ".
    """

    value: str = ""  # "" if not known
    claims: tuple[ConfigurationClaim, ...] = ()


_UNKNOWN = Aspect()


@dataclass(frozen=True, kw_only=True, slots=True)
class BinaryConfiguration:
    """The values that distinguish a package from the other builds of its project."""

    kind: Aspect = _UNKNOWN  # "wheel", "conda", "libtorch", "installed", ...
    python: Aspect = _UNKNOWN
    """"3.11", "3.13t", "2.7mu", "pypy 3.10"; "3.9+" for 3.9 and later versions."""
    accelerator: Aspect = _UNKNOWN  # "cpu", "cuda 12.6", "cuda 12", "rocm 6.2", "xpu"
    system: Aspect = _UNKNOWN  # "linux", "macos", "windows"
    architecture: Aspect = _UNKNOWN  # "x86_64", "aarch64", ...; the same names on every system
    cxx_abi: Aspect = _UNKNOWN  # "cxx11" or "pre-cxx11": the ABI of libstdc++'s std::string
    libtorch_variant: Aspect = _UNKNOWN  # "shared-with-deps", "static-without-deps", "shared"
    channel: Aspect = _UNKNOWN  # "stable", "nightly" or "test"
    version: Aspect = _UNKNOWN  # without its local label
    date: Aspect = _UNKNOWN  # of a nightly: "2026-01-01"

    def aspects(self) -> Iterator[tuple[str, Aspect]]:
        """Yield each field's name and value, in the order of declaration."""
        return ((each.name, getattr(self, each.name)) for each in fields(self))


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedClaim:
    """A claim that the user or the CI system makes about a package."""

    aspect: str  # the name of a field of `BinaryConfiguration`
    claim: ConfigurationClaim
    files: str = ""  # a glob on file names of packages; "" for all packages of the run


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedConfiguration(Deriving):
    """Claims of the user and the CI system about the packages of a run."""

    claims: tuple[StatedClaim, ...] = ()
    file_names: tuple[str, ...] = ()  # file names of all packages of the run, in the order given


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedProjects:
    """The projects of all packages that a run judges."""

    names: frozenset[str] = frozenset()  # normalised, as far as file names state them


ASPECTS = tuple(each.name for each in fields(BinaryConfiguration))


def find_disputes(
    name: str, claims: Iterable[ConfigurationClaim]
) -> Iterator[tuple[ConfigurationClaim, ConfigurationClaim]]:
    """Yield pairs of claims from two sources that share no compatible value.

    A package for several architectures makes a claim for each, as does a name with several tags.
    Each environment variable counts as a source.
    """
    groups: dict[tuple[ClaimSource, str], list[ConfigurationClaim]] = {}
    for claim in claims:
        alone = claim.evidence if claim.source is ClaimSource.VARIABLE else ""
        groups.setdefault((claim.source, alone), []).append(claim)
    for ones, others in combinations(groups.values(), 2):
        if not any(claims_agree(name, one, other) for one in ones for other in others):
            yield ones[0], others[0]


def claims_agree(name: str, one: ConfigurationClaim, other: ConfigurationClaim) -> bool:
    """Return whether both claims may describe the same package; local labels count in versions."""
    if name == "version" and one.full and other.full:
        return Version(one.full) == Version(other.full)
    return agree(name, one.value, other.value)


def agree(name: str, one: str, other: str) -> bool:
    """Return whether both values may describe the same package: "cuda 12" and "cuda 12.6"."""
    if one == other:
        return True
    both_ways = (one, other), (other, one)
    if name == "python":
        return any(_fits(each, lowest) for each, lowest in both_ways)
    if name in ("accelerator", "libtorch_variant"):
        return any(
            longer.startswith((f"{short} ", f"{short}.", f"{short}-"))
            for longer, short in both_ways
        )
    if name == "channel":  # a release candidate is tested under the release's version
        return {one, other} == {"stable", "test"}
    return name == "kind" and not {one, other} <= {"wheel", "conda", "libtorch"}


def _fits(one: str, lowest: str) -> bool:
    """Return whether ``lowest`` covers ``one`` ("3.9+"), or is less precise ("2.7")."""
    if one.removesuffix("m").removesuffix("mu") == lowest and one.startswith("2."):
        return True
    if not lowest.endswith("+") or " " in one:
        return False
    version, oldest = read_numbers(one.rstrip("+tmu")), read_numbers(lowest.rstrip("+"))
    return version[:1] == oldest[:1] and version >= oldest


# How a package gets the libraries that it is built with: linked in, bundled, or unknown.


class Linking(str, Enum):
    """How a library gets into a process."""

    STATIC = "static"  # its code is part of the object
    DYNAMIC = "dynamic"  # the loader finds it because the object needs it
    UNKNOWN = "unknown"  # the library leaves a trace that does not show how it is linked


class Whence(str, Enum):
    """The origin of the file of a dynamic library."""

    BUNDLED = "bundled"  # in the package
    SYSTEM = "system"
    PYTHON = "python"
    REQUIRED = "required"  # in a package that this one requires
    MISSING = "missing"
    UNKNOWN = "unknown"  # the loader was not simulated


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedLibrary:
    """One library, and the objects of a package that link it in the same way.

    A library that is not listed may still be linked: perhaps no object shows a trace of it.
    """

    name: str  # "OpenSSL"
    role: str  # "TLS": OpenSSL and BoringSSL can replace each other
    linking: Linking
    version: str = ""  # from a string in the library
    file: str = ""  # the needed file, "libssl.so.3"; "" if static
    whence: Whence | None = None  # None if static
    objects: int = 1  # number of objects that link the library in this way
    evidence: str = ""  # the first of these objects, and its trace of the library


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedLibraries:
    """All libraries that a package is known to link."""

    libraries: tuple[LinkedLibrary, ...] = ()  # by role, name and linking
    compilers: tuple[str, ...] = ()  # named in the objects: "GCC 14.2.1", "rustc 1.97.1"


# The CUDA or ROCm version that a package is built for, according to several sources.


class Platform(str, Enum):
    """The vendor's platform for GPUs, as messages spell it."""

    CUDA = "CUDA"
    ROCM = "ROCm"


class ToolkitSource(str, Enum):
    """The source of a stated version, the most visible to users first."""

    LABEL = "label"  # the local version label, the variant of an archive
    NAME = "name"  # the project's name
    FILE = "file"  # a generated file of the package
    ANSWER = "answer"  # an expression, evaluated in the installed package
    REQUIREMENT = "requirement"
    LIBRARY = "library"  # a library that an object needs
    DEVICE_CODE = "device code"
    LOADED = "loaded"  # a runtime that reports its version after being loaded or installed


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolkitClaim:
    """One version stated by one source."""

    platform: Platform
    version: str  # "12.6", "12"; "" if the build is not for that platform
    source: ToolkitSource
    evidence: str  # the subject of a sentence: "the version label +cu126"
    path: str = ""  # the package's file that states the version, if any
    detail: str = ""
    """For a needed library, its name and how many more objects need it; for a file, the text."""

    is_label: bool = False  # whether a file states the version as part of a version label

    @property
    def statement(self) -> str:
        """The platform with the version, "CUDA 12.6", or "no CUDA"."""
        return (
            f"{self.platform.value} {self.version}" if self.version else f"no {self.platform.value}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedToolkits:
    """The toolkits stated by a package's label, name, requirements and generated files.

    No code of the package is run.
    """

    claims: tuple[ToolkitClaim, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()  # (file that may state a version, why it is not read)
