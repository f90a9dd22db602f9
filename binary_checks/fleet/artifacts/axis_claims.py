"""Axes of a file: combine the claims of bytes, name, variables and user into one value each."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from binary_checks.errors import ProfileError
from binary_checks.fleet.artifacts.artifact import (
    CHOICES,
    FILE_AXES,
    LIBRARY_AXES,
    LINKED,
    ArtifactRefusedError,
)
from binary_checks.fleet.cells import family_of, require_value
from binary_checks.knowledge.configurations import (
    READERS,
    choose_stated,
    choose_value,
)
from binary_checks.knowledge.linked_libraries import library_of_file
from binary_checks.model import (
    ANY_SYSTEM,
    BinaryConfiguration,
    ClaimSource,
    CondaPackage,
    ConfigurationClaim,
    Distribution,
    LinkedLibraries,
    MachOFile,
    Package,
    StatedClaim,
    StatedConfiguration,
    agree,
    find_disputes,
)
from binary_checks.profile import reject_unknown
from binary_checks.systems import policies
from binary_checks.systems.libraries import is_api_set, windows_libraries
from binary_checks.wording.sentences import format_claim

ANY = ANY_SYSTEM
"""The value of an axis that does not restrict where a package runs."""
BY_HAND = "set by hand"
_ASPECTS: Mapping[str, str] = {
    "system": "system",
    "architecture": "architecture",
    "python": "python",
    "variant": "accelerator",
    "cxx_abi": "cxx_abi",
    "libtorch": "libtorch_variant",
}
"""Axis -> the attribute of `BinaryConfiguration` that holds its claims."""
_TAGGED = frozenset({"system", "architecture", "python"})
"""Axes by which installers choose a package: its tags or its subdir decide.

Whether the bytes keep that promise is for the checks to judge.
"""
_ARCHITECTURES: Mapping[str, Mapping[str, str]] = {
    "ios": {"aarch64": "arm64"},
    "android": {"aarch64": "arm64_v8a"},
    "macos": {"aarch64": "arm64"},
    "windows": {"x86_64": "amd64", "aarch64": "arm64", "i686": "x86"},
}
"""System -> architecture -> how the tags of that system write it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedValues:
    """The values that a push states for all its files, in addition to the files' own claims."""

    by_hand: Mapping[str, str] = field(default_factory=dict)  # axis -> value
    variables: tuple[StatedClaim, ...] = ()
    file_names: tuple[str, ...] = ()
    project: str = ""
    version: str = ""


class AxisValue(NamedTuple):
    """The value of an axis, and the evidence for it."""

    value: str
    evidence: str


def read_by_hand(texts: Sequence[str]) -> dict[str, str]:
    """Read settings such as ``variant=cu130``. Raises ProfileError for an impossible value."""
    found: dict[str, str] = {}
    for text in texts:
        axis, equals, value = text.partition("=")
        where = f"--set {text:.80}"
        if not equals:
            raise ProfileError(f"{where}: not AXIS=VALUE, AXIS of {', '.join(FILE_AXES)}")
        reject_unknown([axis], dict.fromkeys(FILE_AXES), where, "axis")
        if axis in found and found[axis] != value:
            raise ProfileError(
                f"{where}: {axis}={found[axis]} is given, too, but an axis has only one value"
            )
        if axis in CHOICES:
            reject_unknown([value], dict.fromkeys(CHOICES[axis]), where, axis)
        found[axis] = require_value(axis, value, where)
    return found


def derive_axes(
    package: Package,
    configuration: BinaryConfiguration,
    stated: StatedValues,
    linked: LinkedLibraries | None = None,
) -> dict[str, AxisValue]:
    """Return the value of each axis that is known, with its evidence.

    Raises ArtifactRefusedError if two sources contradict each other, naming both.
    """
    about = StatedConfiguration(claims=stated.variables, file_names=stated.file_names)
    variables = tuple(choose_stated(package.file_name, about))
    tagged = isinstance(package, (Distribution, CondaPackage))
    found = dict(_read_tags(package)) if tagged else {}
    for axis, aspect in _ASPECTS.items():
        # Finding no trace of an accelerator does not mean that the package is built for none.
        claims = [each for each in getattr(configuration, aspect).claims if not each.by_absence]
        named = [each for each in claims if each.source is ClaimSource.NAME]
        if not (tagged and axis in _TAGGED):
            named = []
        every = [*(named or claims), *(each.claim for each in variables if each.aspect == aspect)]
        if named or axis not in found:
            require_agreement(package.file_name, axis, aspect, every)
        if axis not in found:
            found |= _choose(axis, aspect, named or every)
    _refine_by_system(package, found)
    found |= _name_libraries(linked or LinkedLibraries())
    found |= _name_linking(package, linked or LinkedLibraries())
    for axis, text in stated.by_hand.items():
        found[axis] = _set(package.file_name, axis, text, found.get(axis))
    return found


def _read_tags(package: Package) -> Iterator[tuple[str, AxisValue]]:
    """Yield the systems of tags or a subdir, and the axes that they leave open.

    A package for every system may contain programs for some systems: distlib has launchers for
    Windows.
    """
    systems: dict[str, str] = {}
    for each in package.claims.systems:
        name = "musllinux" if each.libc == "musl" else each.system
        systems.setdefault(name, f"the tag {each.name}")
    if systems:
        yield "system", AxisValue(", ".join(sorted(systems)), systems[min(systems)])
    if ANY in systems:
        yield "architecture", AxisValue(ANY, systems[ANY])
    pythons = package.claims.pythons
    unbound = next((each.name for each in pythons if each.version is None), "")
    if unbound:
        yield "python", AxisValue(ANY, f"the tag {unbound}")
    elif isinstance(package, CondaPackage) and not pythons:
        yield "python", AxisValue(ANY, "it does not depend on Python")


def require_agreement(
    file_name: str, axis: str, aspect: str, claims: Sequence[ConfigurationClaim]
) -> None:
    """Raise ArtifactRefusedError if two sources contradict each other."""
    for one, other in find_disputes(aspect, claims):
        if not _is_harmless(aspect, one, other):
            raise ArtifactRefusedError(
                f"{file_name}: {axis}: {format_claim(other)}, but {format_claim(one)}"
            )


def _is_harmless(aspect: str, one: ConfigurationClaim, other: ConfigurationClaim) -> bool:
    """Return whether two claims differ only because a CPU build needs an accelerator's library.

    Some projects make such CPU builds on purpose.
    """
    if aspect != "accelerator":
        return False
    values = {each.source: each for each in (one, other)}
    found, named = values.get(ClaimSource.BYTES), values.get(ClaimSource.NAME)
    return bool(found and named and named.value == "cpu" and " needs " in f" {found.evidence}")


def _choose(axis: str, aspect: str, claims: Sequence[ConfigurationClaim]) -> dict[str, AxisValue]:
    """Return the axis with the value that the claims agree on, or nothing without claims."""
    value = choose_value(aspect, claims)
    if not value:
        return {}
    first = value.split(", ")[0]
    equal = [each for each in claims if each.value == first]
    agreeing = [each for each in claims if agree(aspect, each.value, first)]
    return {axis: AxisValue(_format_value(axis, value), [*equal, *agreeing, *claims][0].evidence)}


def _format_value(axis: str, value: str) -> str:
    """Write a value as cells do: "cu126" for "cuda 12.6", "pypy3.10" for "pypy 3.10"."""
    words = []
    for each in value.split(", "):
        family, _, version = each.partition(" ")
        is_cuda = axis == "variant" and family == "cuda" and version
        words.append(f"cu{version.replace('.', '')}" if is_cuda else f"{family}{version}")
    return ", ".join(words)


_SHORT = {
    "BLAS of the system": "system",
    "LLVM OpenMP": "llvm",
    "Intel OpenMP": "intel",
    "Microsoft OpenMP": "microsoft",
}
"""Name of a library -> value of its axis, for names that do not become one in lower case."""


def _name_libraries(linked: LinkedLibraries) -> Iterator[tuple[str, AxisValue]]:
    """Yield each axis whose value is the linked libraries of one role: blas is mkl or openblas."""
    for axis, role in LIBRARY_AXES.items():
        evidence = {
            _SHORT.get(each.name, each.name.lower().replace(" ", "-")): each.evidence
            for each in reversed(linked.libraries)
            if each.role == role
        }
        if evidence:
            first = min(evidence)
            yield axis, AxisValue(", ".join(sorted(evidence)), evidence[first])


_UNCOUNTED = frozenset(
    {"C++ runtime", "Fortran runtime", "OpenMP", "profiling"}
    | {"CUDA runtime", "cuDNN", "cuBLAS", "NCCL"}
)
"""Roles of libraries that come with a compiler, or that the variant states.

A build that links everything else statically still needs them as files.
"""
_OF_HOST = re.compile(
    r"ld-|lib(?:c|m|dl|log)\.|/usr/lib/|/System/|msvc[pr]\d|"
    r"(?:lib)?(?:python|nv|cuda|cu(?:fft|rand|sol|spars|pti)|hip|amd|roc)",
    re.IGNORECASE,
)
"""Matches needed files of the system, the interpreter and the accelerator.

Of the system's libraries, those of Android, macOS and old compilers of Windows are meant.
"""


def _name_linking(package: Package, linked: LinkedLibraries) -> Iterator[tuple[str, AxisValue]]:
    """Yield whether the package is linked statically or dynamically, if all evidence agrees."""
    ways: dict[str, str] = {}
    for each in linked.libraries:
        if each.role not in _UNCOUNTED:
            ways.setdefault(each.linking.value, each.evidence)
    own = {item.file_name for item in package.objects}
    system = _list_system_libraries()
    for item in package.objects:
        for need in item.needed:
            file = need.name.rpartition("/")[2]
            known = library_of_file(file) or file in own or file.lower() in system
            host = _OF_HOST.match(need.name) or _OF_HOST.match(file) or is_api_set(file.lower())
            if not known and not host:
                ways.setdefault("dynamic", f"{item.path}: needs {file}")
    if len(ways) == 1 and not ways.keys().isdisjoint(CHOICES[LINKED]):
        ((way, evidence),) = ways.items()
        yield LINKED, AxisValue(way, evidence)


@functools.cache
def _list_system_libraries() -> frozenset[str]:
    """Return the libraries of Windows, and those that a policy of Linux allows, in lower case."""
    listed = (each.libraries for each in policies("glibc", "x86_64"))
    return frozenset(map(str.lower, windows_libraries("x86_64").union(*listed)))


def _refine_by_system(package: Package, found: dict[str, AxisValue]) -> None:
    """Tell apart systems that share a format, and write architectures as the system's tags do."""
    system, architecture = found.get("system"), found.get("architecture")
    if system is None:
        return
    platforms = [each.platforms for each in package.objects_of(MachOFile)]
    elsewhere = all(each and "macos" not in each for each in platforms)
    if system.value == "macos" and platforms and elsewhere:  # iOS shares Mach-O with macOS
        system = AxisValue(platforms[0][0], system.evidence)
    elif system.value == "linux" and any(each.libc == "musl" for each in package.claims.systems):
        system = AxisValue("musllinux", f"{system.evidence} with musl's libc")
    found["system"] = system
    if architecture is not None:
        words = dict(_ARCHITECTURES.get(system.value, {}))
        spelled = sorted(words.get(each, each) for each in architecture.value.split(", "))
        found["architecture"] = AxisValue(", ".join(spelled), architecture.evidence)


def _set(file_name: str, axis: str, text: str, known: AxisValue | None) -> AxisValue:
    """Return the value set by hand. Raises ArtifactRefusedError if evidence contradicts it."""
    if known is None or known.value == ANY:
        return AxisValue(text, BY_HAND)
    if text in known.value.split(", "):
        return AxisValue(text, known.evidence)
    if not is_compatible(axis, text, known.value):
        raise ArtifactRefusedError(
            f"{file_name}: {axis}: {text} is {BY_HAND}, but {known.evidence} says {known.value}"
        )
    return AxisValue(text, f"{BY_HAND}; {known.evidence} says {known.value}")


def is_compatible(axis: str, text: str, known: str) -> bool:
    """Return whether a value set by hand is the known one, or a more precise one."""
    if axis not in _ASPECTS:  # its values are names that have no other form
        return False
    if axis == "system":
        return libc_of(text) in [libc_of(each) for each in known.split(", ")]
    read = READERS[_ASPECTS[axis]]
    value = read(text)
    if not value:  # a name that the project invented, which neither bytes nor tags contain
        return axis == "variant"
    values = filter(None, map(read, known.split(", ")))
    return any(agree(_ASPECTS[axis], each, value) for each in values)


def libc_of(system: str) -> str:
    """Return the system of a tag: "linux" for manylinux_2_28; musllinux is a system of its own."""
    return "musllinux" if system.startswith("musllinux") else family_of(system)
