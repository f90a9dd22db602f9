"""Axes of a file: combine the claims of bytes, name, variables and user into one value each."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from binary_checks.errors import ArtifactRefusedError, ProfileError
from binary_checks.fleet.artifacts.artifact import CHOICES, FILE_AXES, LIBRARY_AXES, LINKED
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
    ElfFile,
    LinkedLibraries,
    MachOFile,
    ObjectFile,
    Package,
    PeFile,
    PythonClaim,
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
_MACOS = "macos"
_KINDS: Mapping[str, type[ObjectFile]] = {"linux": ElfFile, _MACOS: MachOFile, "windows": PeFile}
_FORMATS = frozenset(_KINDS)
"""Systems that have an object file format of their own."""
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


def read_by_hand(texts: Sequence[str], names: Sequence[str] = FILE_AXES) -> dict[str, str]:
    """Read settings such as ``variant=cu130``. Raises ProfileError for an impossible value."""
    found: dict[str, str] = {}
    for text in texts:
        axis, equals, value = text.partition("=")
        where = f"--set {text:.80}"
        if not equals or axis not in names:
            raise ProfileError(f"{where}: not AXIS=VALUE, AXIS of {', '.join(names)}")
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
    found: dict[str, AxisValue] = {}
    for axis, aspect in _ASPECTS.items():
        # Finding no trace of an accelerator does not mean that the package is built for none.
        claims = [each for each in getattr(configuration, aspect).claims if not each.by_absence]
        if axis in ("system", "architecture") and _carries_others(package):
            claims = [each for each in claims if each.source is not ClaimSource.BYTES]
        if axis == "system":
            claims = list(_correct_systems(package, claims))
        elif axis == "architecture":
            claims = list(_drop_imprecise(claims))
        claims += [each.claim for each in variables if each.aspect == aspect]
        require_agreement(package.file_name, axis, aspect, claims)
        if value := _choose(axis, aspect, claims):
            found[axis] = value
    for axis, promise in _read_promises(package, configuration):
        if axis not in found or found[axis].value != promise.value:
            found[axis] = promise
    _refine_by_system(package, found)
    found |= _name_libraries(linked or LinkedLibraries())
    found |= _name_linking(package, linked or LinkedLibraries())
    for axis, text in stated.by_hand.items():
        found[axis] = _set(package.file_name, axis, text, found.get(axis))
    return found


def _carries_others(package: Package) -> bool:
    """Return whether the package has objects for other systems than the one in its tags.

    sounddevice's wheels for macOS contain its library for Windows, too.
    """
    promised = {each.system for each in package.claims.systems}
    found = {each for each, kind in _KINDS.items() if next(package.objects_of(kind), None)}
    return len(found) > 1 and len(promised) == 1 and promised <= found


def _correct_systems(
    package: Package, claims: Sequence[ConfigurationClaim]
) -> Iterator[ConfigurationClaim]:
    """Correct the claimed systems of objects whose file format is shared by several systems.

    iOS shares Mach-O with macOS, and Android shares ELF with Linux; the file's name or the platform
    in the Mach-O header tells them apart.
    """
    named = any(each.source is ClaimSource.NAME and each.value not in _FORMATS for each in claims)
    platforms = [each.platforms for each in package.objects_of(MachOFile)]
    elsewhere = bool(platforms) and all(each and _MACOS not in each for each in platforms)
    for each in claims:
        if not (named and each.source is ClaimSource.BYTES):
            other = elsewhere and each.value == _MACOS
            yield replace(each, value=platforms[0][0]) if other else each


def _drop_imprecise(claims: Sequence[ConfigurationClaim]) -> Iterator[ConfigurationClaim]:
    """Drop machines that an object's header states less precisely than the file's name.

    The header says armv6l in an armv7l wheel, for example, and mips64 in a mips64el one.
    """
    named = [each.value for each in claims if each.source is ClaimSource.NAME]
    for each in claims:
        if each.source is not ClaimSource.BYTES or not any(
            _is_one_family(each.value, name) for name in named
        ):
            yield each


def _is_one_family(found: str, named: str) -> bool:
    if found == named:
        return False
    arm = found.startswith("armv") and named.startswith("armv")
    return arm or found.removesuffix("el") == named.removesuffix("el")


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


def _choose(axis: str, aspect: str, claims: Sequence[ConfigurationClaim]) -> AxisValue | None:
    value = choose_value(aspect, claims)
    if not value:
        return None
    first = value.split(", ")[0]
    equal = [each for each in claims if each.value == first]
    agreeing = [each for each in claims if agree(aspect, each.value, first)]
    return AxisValue(_format_value(axis, value), (equal or agreeing or list(claims))[0].evidence)


def _format_value(axis: str, value: str) -> str:
    """Write a value as cells do: "cu126" for "cuda 12.6", "pypy3.10" for "pypy 3.10"."""
    if axis != "variant":
        return value.replace(" ", "").replace(",", ", ")
    return ", ".join(map(format_variant, value.split(", ")))


def format_variant(value: str) -> str:
    """Return an accelerator as cells write it: "cu126" for "cuda 12.6"."""
    family, _, version = value.partition(" ")
    return f"cu{version.replace('.', '')}" if version and family == "cuda" else f"{family}{version}"


def _read_promises(
    package: Package, configuration: BinaryConfiguration
) -> Iterator[tuple[str, AxisValue]]:
    """Yield values that installers rely on and that no object contradicts.

    They are the tags of wheels, and noarch of conda packages. A package for every system may
    contain programs for some systems (distlib has launchers for Windows), but no extension modules.
    """
    extensions = [each for each in configuration.python.claims if each.source is ClaimSource.BYTES]
    everywhere = [each for each in package.claims.systems if each.system == ANY_SYSTEM]
    if everywhere and not extensions:
        yield "system", AxisValue(ANY, f"the tag {everywhere[0].name}")
        yield "architecture", AxisValue(ANY, f"the tag {everywhere[0].name}")
    pythons = package.claims.pythons
    if isinstance(package, Distribution) and pythons:
        names = ", ".join(each.name for each in pythons[:3])
        yield "python", AxisValue(format_pythons(pythons), f"the tag {names}")
    elif isinstance(package, CondaPackage) and not pythons:
        yield "python", AxisValue(ANY, "it does not depend on Python")


def format_pythons(pythons: Iterable[PythonClaim]) -> str:
    """Return the Pythons of tags as text: "3.12", "3.9+" for a stable ABI, or "any"."""
    exact, lowest = set[tuple[tuple[int, int], str]](), set[tuple[int, int]]()
    for each in pythons:
        if each.version is None:
            return ANY
        if each.abi.startswith("abi3") or not (each.abi or each.implementation):
            lowest.add(each.version)
        else:  # cp312-none is for that version only, too
            prefix = "" if each.implementation in ("", "cpython") else each.implementation
            exact.add((each.version, f"{prefix}%s{'t' * each.free_threaded}"))
    spelled = [form % "{}.{}".format(*version) for version, form in sorted(exact)]
    return ", ".join([*spelled, *("{}.{}+".format(*each) for each in sorted(lowest)[:1])])


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
    r"ld-|libc\.|/usr/lib/|/System/|(?:lib)?(?:python|nv|cuda|cu(?:fft|rand|sol|spars|pti)|hip|amd|roc)",
    re.IGNORECASE,
)
"""Matches needed files of the system's loader, the interpreter and the accelerator."""


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
            if not known and not _OF_HOST.match(need.name) and not is_api_set(file.lower()):
                ways.setdefault("dynamic", f"{item.path}: needs {file}")
    if len(ways) == 1 and not ways.keys().isdisjoint(CHOICES[LINKED]):
        ((way, evidence),) = ways.items()
        yield LINKED, AxisValue(way, evidence)


@functools.cache
def _list_system_libraries() -> frozenset[str]:
    """Return the libraries of Linux, by its oldest and newest policies, and of Windows."""
    listed = (each.libraries for each in policies("glibc", "x86_64"))
    return windows_libraries("x86_64").union(*listed)


def _refine_by_system(package: Package, found: dict[str, AxisValue]) -> None:
    """Distinguish musl from glibc, and write architectures as the system's tags do."""
    system, architecture = found.get("system"), found.get("architecture")
    if system is None:
        return
    if system.value == "linux" and (musl := _find_musl(package)):
        found["system"] = AxisValue("musllinux", musl)
    elif system.value == "linux":
        linux = [each for each in package.claims.systems if each.system == "linux" and each.libc]
        named = {each.libc: each.name for each in linux}
        words = {"glibc": "linux", "musl": "musllinux"}
        if "musl" in named:
            spelled = ", ".join(words[libc] for libc in words if libc in named)
            found["system"] = AxisValue(spelled, named["musl"])
    if architecture is not None:
        words = dict(_ARCHITECTURES.get(system.value, {}))
        spelled = ", ".join(words.get(each, each) for each in architecture.value.split(", "))
        found["architecture"] = AxisValue(spelled, architecture.evidence)


def _find_musl(package: Package) -> str:
    """Return the evidence that a library without tags is for musl, or "" if there is none."""
    if isinstance(package, Distribution):  # its tags state the libc
        return ""
    for item in package.objects_of(ElfFile):
        for need in item.needed:
            if need.name.startswith("libc.musl-") or need.name == "libc.so":
                return f"{item.path} needs {need.name}"
    return ""


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
    if axis in LIBRARY_AXES or axis == LINKED:  # its values are names that have no other form
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
