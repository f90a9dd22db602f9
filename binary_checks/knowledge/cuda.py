"""CUDA: relations of a package to it, needed drivers, and the package's answers and versions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.knowledge.configurations import claim_accelerators, claim_by_name
from binary_checks.knowledge.library_names import (
    cuda_of_label,
    cuda_of_library,
    cuda_of_name,
    cuda_of_requirement,
    find_driver_symbols,
    is_cuda_library,
    is_driver_function,
    is_driver_library,
    is_for_cpu,
    strip_graft,
)
from binary_checks.model import (
    Answer,
    CudaReport,
    CudaRequest,
    DeviceKind,
    DeviceLinking,
    ElfFile,
    Finding,
    Kind,
    LibraryVersions,
    Linkage,
    NotInspected,
    ObjectFile,
    Package,
    PeFile,
    Problem,
    RefusedAnswers,
    expand,
    path_elements,
    read_numbers,
    read_requirement,
)
from binary_checks.profile import read_toml

# Whether a package is related to CUDA at all.

_ACCELERATED = re.compile(r"(?i)cuda|nvidia|gpu|rocm|hip|xpu|cu1\d|numba|rapids|opencl|vulkan")
_FRAMEWORKS = re.compile(r"(?i)(?:torch|triton|cupy|jax(?:lib)?|tensorflow|paddle\w*|mxnet)\b")
"""Packages that may work on a GPU on behalf of the packages that require them."""


def require_cuda(package: Package, linkage: Linkage) -> None:
    """Raise NotApplicable if the package, read completely, shows no relation to CUDA."""
    if not (relates_to_cuda(package, linkage) or package.unread or package.malformed):
        raise NotApplicable("nothing in it relates to CUDA")


def relates_to_cuda(package: Package, linkage: Linkage) -> bool:
    """Return whether the package's objects, needs, name, label or requirements refer to CUDA."""
    if any(item.device_code for item in package.objects if isinstance(item, (ElfFile, PeFile))):
        return True
    needed = {edge.needed for edge in (*linkage.edges, *linkage.given_edges)}
    of_cuda = any(is_cuda_library(name) or is_driver_library(name) for name in needed)
    return of_cuda or any(_claims(package))


def require_gpu_build(package: Package) -> None:
    """Raise NotApplicable if the package's name or version label states a build for the CPU."""
    if is_for_cpu(package):
        label = package.claims.variant
        why = f"the version label +{label}" if "cpu" in label.split(".") else "its name"
        raise NotApplicable(f"it is a build for the CPU: {why} says so")


def require_trace_of_gpu(package: Package) -> None:
    """Raise NotApplicable if all objects were read, and nothing in the package shows a GPU.

    An example is PyPI's torch for Windows, which has no label. A package that only opens CUDA's
    libraries, or requires a package that may work on a GPU, does show an accelerator.
    """
    claims = list(claim_accelerators(package))
    if not claims or not all(claim.by_absence for claim in claims):
        return
    if not (
        opens_accelerator(package) or speaks_of_accelerator(package) or requires_framework(package)
    ):
        raise NotApplicable(f"it is a build for the CPU: {claims[0].evidence}")


def find_platform(package: Package) -> str:
    """Return the platform whose driver a package's build works with: "cuda", "rocm" or "xpu".

    The label and the name count more than the bytes; without any trace it is CUDA.
    """
    named = (each.claim for each in claim_by_name(package) if each.aspect == "accelerator")
    for claim in (*named, *claim_accelerators(package)):
        kind = claim.value.partition(" ")[0]
        if kind in ("cuda", "rocm", "xpu"):
            return kind
    return "cuda"


def opens_accelerator(package: Package) -> bool:
    """Return whether an object may open a library of CUDA, or of the driver, at run time."""
    return any(
        is_cuda_library(name) or is_driver_library(name)
        for item in package.objects
        if item.opened
        for name in item.opened.names
    )


def speaks_of_accelerator(package: Package) -> bool:
    """Return whether the package's name or a requirement contains a word for an accelerator."""
    return any(map(_ACCELERATED.search, (package.name, *package.claims.requirements)))


def requires_framework(package: Package) -> bool:
    """Return whether the package requires a framework that may use a GPU, such as torch."""
    return any(map(_FRAMEWORKS.match, package.claims.requirements))


def list_promised(package: Package) -> tuple[str, ...]:
    """Return the CUDA versions in the package's name and label, or else in its bytes."""
    named = (each.claim for each in claim_by_name(package) if each.aspect == "accelerator")
    for claims in (named, claim_accelerators(package)):
        values = (each.value.partition(" ") for each in claims)
        if found := tuple(version for kind, _, version in values if kind == "cuda" and version):
            return found
    return ()


def _claims(package: Package) -> Iterator[bool]:
    yield cuda_of_name(package.name) is not None or bool(cuda_of_label(package.claims.variant))
    yield is_for_cpu(package)
    # Few requirements are NVIDIA's, and parsing all of them takes time.
    likely = [
        text for text in package.claims.requirements if "cu" in text.lower() or "nv" in text.lower()
    ]
    for requirement in map(read_requirement, likely):
        if requirement is not None and "extra" not in str(requirement.marker):
            yield bool(cuda_of_requirement(requirement))


# The lowest NVIDIA driver for a CUDA build, from NVIDIA's compatibility tables.

_DRIVERS = Path(__file__).with_name("cuda_drivers.toml")


_Drivers = Mapping[str, tuple[str, str]]
"""CUDA version -> drivers of Linux and of Windows."""


@lru_cache(maxsize=1)
def _read_drivers() -> tuple[_Drivers, _Drivers, Mapping[str, str]]:
    """Return drivers by major version and by toolkit, and the toolkit of each version of PTX."""
    tables = read_toml(_DRIVERS, _DRIVERS.name)
    majors, toolkits = (
        {row["cuda"]: (row["linux"], row["windows"]) for row in tables[kind]}
        for kind in ("major", "toolkit")
    )
    return majors, toolkits, tables["ptx"]


def cudas_of(accelerator: str) -> tuple[str, ...]:
    """Return the CUDA versions in an accelerator's name, the oldest first: "cuda 11, cuda 12"."""
    found = re.findall(r"\bcuda (\d{1,4}(?:\.\d{1,4})?)", accelerator)
    return tuple(sorted(found, key=read_numbers))


def cudas_of_files(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the CUDA versions in paths of libraries: ``nvidia/cu13/lib/libcudart.so.13``."""
    majors: set[int] = set()
    for path in paths:
        folder = re.search(r"(?:^|/)cu(1\d)/", path)
        major = int(folder[1]) if folder else cuda_of_library(path.rpartition("/")[2])
        majors.update([] if major is None else [major])
    return tuple(map(str, sorted(majors)))


def lowest_driver(cuda: str, system: str) -> str:
    """Return the lowest driver that runs a build for that CUDA, "525.60.13", or "" if unknown."""
    majors, toolkits, _ = _read_drivers()
    return _choose(majors.get(cuda.partition(".")[0]) or toolkits.get(cuda), system)


def _choose(drivers: tuple[str, str] | None, system: str) -> str:
    if drivers is None or system not in ("linux", "windows"):
        return ""
    return drivers[system == "windows"]


def driver_of_toolkit(cuda: str, system: str) -> str:
    """Return the driver released with a toolkit, which supports all its features; "" if unknown."""
    return _choose(_read_drivers()[1].get(cuda), system)


def cuda_of_ptx(version: str) -> str:
    """Return the first toolkit that writes a version of PTX, "12.8" for "8.7"; "" if unknown."""
    return _read_drivers()[2].get(version, "")


def oldest_driver_of_ptx(version: str, system: str) -> str:
    """Return the lowest driver that compiles PTX of that version, or "" if unknown."""
    return driver_of_toolkit(cuda_of_ptx(version), system)


# A package's answers about CUDA, and why an answer is missing.


def require_question(value: str, keys: str) -> None:
    """Raise NotApplicable if the profile has no expression for the question."""
    if not value:
        raise NotApplicable(f"the profile has no expression for it ([probes.cuda] {keys})")


def find_answer(report: CudaReport | RefusedAnswers, question: str) -> Answer | None:
    """Return the answer to one expression; None if the expression was not evaluated."""
    return next((each for each in report.answers if each.question == question), None)


def find_gap(report: CudaReport | RefusedAnswers, question: str) -> NotInspected:
    """Return why there is no answer."""
    where = f" after {report.stage}" if report.stage else ""
    return NotInspected(sentence=f"{question} was not evaluated: the process ended{where}")


def require_cuda_build(report: CudaReport, asked: CudaRequest) -> None:
    """Raise NotApplicable if the package reports a build without CUDA."""
    built = find_answer(report, asked.version) if asked.version else None
    if built is not None and not (built.value or built.error):
        raise NotApplicable(f"{asked.version} is {built.value!r}: the build is not for CUDA")


def find_reported(report: CudaReport, asked: CudaRequest) -> tuple[str, ...]:
    """Return the architectures for which the package claims to have code: "sm_90"."""
    answer = find_answer(report, asked.architectures) if asked.architectures else None
    value = answer.value if answer else ()
    names = value.split() if isinstance(value, str) else value if isinstance(value, tuple) else ()
    found = (re.fullmatch(r"(?:sm|compute)_(\d{2,3}[af]?)", name) for name in names)
    return tuple(dict.fromkeys(f"sm_{match[1]}" for match in found if match))


def disagree(reported: str, expected: str) -> bool:
    """Return whether two versions differ in a common part; "12.6" agrees with "12" and "12.6.3"."""
    parts = zip(reported.split("."), expected.split("."), strict=False)
    return any(one != other for one, other in parts)


def find_architectures(package: Package) -> frozenset[tuple[bool, str]]:
    """Return (whether the code is PTX, number) for each architecture in the objects."""
    objects = (item for item in package.objects if isinstance(item, (ElfFile, PeFile)))
    return frozenset(
        (code.kind is DeviceKind.PTX, generation(code.architecture)[1])
        for item in objects
        for code in item.device_code
        if code.architecture.startswith("sm_") and code.linking is not DeviceLinking.UNUSABLE
    )


def generation(architecture: str) -> tuple[bool, str]:
    """Return whether "sm_90a" or "compute_90" is PTX, and its number without a suffix."""
    kind, _, number = architecture.partition("_")
    return kind == "compute", number.rstrip("af?")


# Copies of the driver's libraries, and stubs that replace them, recognised by their contents.

# The first function that programs call in each library -> the library's name.
_FIRST_CALLS: Final = {
    "cuInit": "libcuda.so.1",
    "nvmlInit_v2": "libnvidia-ml.so.1",
    "cuvidCreateDecoder": "libnvcuvid.so.1",
    "NvEncodeAPICreateInstance": "libnvidia-encode.so.1",
}
# NVIDIA's stubs have some hundred bytes for each function; the smallest driver is 5 kB
# (libnvidia-ml.so.1).
_HEADERS, _PER_FUNCTION = 16_384, 1_024  # bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class DriverCopy:
    """A copy or a stub of one of the driver's libraries in a package."""

    item: ObjectFile
    name: str  # the library that the file is a copy of, or replaces
    functions: int  # number of exported driver functions
    # whether the file is too small for more than fixed answers, and cannot open the user's driver
    stub: bool

    @property
    def for_linkers(self) -> bool:
        """Whether only linkers search for the file, judging by its directory and its name."""
        return "stubs" in self.item.directory.split("/") and self.item.file_name.endswith(".so")

    def __str__(self) -> str:
        if self.stub:
            return f"a stub of {self.name} whose {self.functions} functions all fail,"
        return f"a copy of {self.name}"


def find_copies(objects: Iterable[ObjectFile], drivers: tuple[str, ...]) -> list[DriverCopy]:
    """Return all copies and stubs of the driver's libraries among shared libraries.

    A library is recognised by soname and file name, without marks of repair tools. Otherwise it is
    recognised by its exports, if all are functions of the driver and it opens no library: it must
    then answer the calls itself, as a stub does.
    """
    found: list[DriverCopy] = []
    for item in objects:
        if item.kind is not Kind.SHARED or not isinstance(item, (ElfFile, PeFile)):
            continue
        names = (strip_graft(name) for name in (item.name, item.file_name))
        name = next((each for each in names if each.lower() in drivers), "")
        stands_for, functions, others = _read_exports(item)
        small = item.size < _HEADERS + _PER_FUNCTION * functions
        asks = item.opened is not None or any(is_driver_library(need.name) for need in item.needed)
        stub = bool(functions and small and not asks)
        if name or (stub and not others and stands_for in drivers):
            found.append(
                DriverCopy(item=item, name=name or stands_for, functions=functions, stub=stub)
            )
    return found


def _read_exports(item: ObjectFile) -> tuple[str, int, int]:
    """Return the driver library whose functions the object exports, and two counts.

    The counts are the exports that are functions of that library, and the other exports.
    """
    try:
        first = min(item.exports.among(_FIRST_CALLS), default="")
        names = item.exports.names if first else frozenset[str]()
    except Unavailable:  # the symbols were not stored, so that only the names count
        return "", 0, 0
    if not first:
        return "", 0, 0
    soname = _FIRST_CALLS[first]
    own = find_driver_symbols(soname, names)
    others = [name for name in names - own if not name.startswith(("_", "cu", "nvml", "NvEnc"))]
    return soname, len(own), len(others)


def find_searched(opener: ObjectFile, library: ObjectFile) -> tuple[str, ...]:
    """Return the names that an object may open, if its search path has the library's folder.

    For example, the object opens libcuda.so before libcuda.so.1, and ``$ORIGIN/stubs`` contains a
    stub named libcuda.so.
    """
    if opener.opened is None or not isinstance(opener, ElfFile):
        return ()
    folders = {expand(element, opener) for element in path_elements(opener)}
    return opener.opened.names if library.directory in folders else ()


# Functions of NVIDIA's driver that programs look up by name.

_FUNCTIONS = Path(__file__).with_name("driver_functions.toml")
_MOST = 5000  # limit on names added for a package: a compiler takes a second for that many
_LONGEST = 120  # letters of an added name


def list_driver_functions(needed: Iterable[str] = ()) -> tuple[str, ...]:
    """Return all known driver functions, and the needed symbols that are such functions, sorted.

    Other names are left out, because the result is written into C code.
    """
    rows = read_toml(_FUNCTIONS, _FUNCTIONS.name)["api"]
    known = (f"{row['prefix']}{name}" for row in rows for name in row["names"].split())
    return tuple(sorted({*known, *islice(sorted(filter(_is_plain, set(needed))), _MOST)}))


def _is_plain(name: str) -> bool:
    return name.isascii() and len(name) <= _LONGEST and is_driver_function(name)


# Versions of NVIDIA's libraries: compiled with, loaded, installed, and pinned.


def find_unreported(known: tuple[LibraryVersions, ...], asked: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each library whose version at build time is unknown."""
    by_name = {each.name: each for each in known}
    for name in sorted(asked):
        each = by_name.get(name)
        if each is None or (not each.compiled and (each.loaded or each.installed)):
            yield f"{name}: the package does not report the version it was built with"


def find_pins(package: Package) -> dict[str, str]:
    """Return the exact versions of NVIDIA's distributions that a package requires, by library."""
    found = {}
    for requirement in filter(None, map(read_requirement, package.claims.requirements)):
        prefix, _, rest = canonicalize_name(requirement.name).partition("-")
        versions = [each.version for each in requirement.specifier if each.operator == "=="]
        if prefix == "nvidia" and versions and "*" not in versions[0]:
            found[rest.partition("-cu")[0]] = versions[0]
    return found


def compare_expected(
    known: tuple[LibraryVersions, ...], expected: Mapping[str, str]
) -> Iterator[Finding]:
    """Compare loaded libraries, else installed ones, with the versions that a profile expects."""
    by_name = {each.name: each for each in known}
    for name, version in sorted(expected.items()):
        each = by_name.get(name, LibraryVersions(name=name))
        present, how = (each.loaded, "loaded") if each.loaded else (each.installed, "installed")
        if not present:
            yield NotInspected(sentence=f"{name}: it is neither loaded nor installed")
        elif not f"{present}.".startswith(f"{version}."):
            sentence = f"{name} {present} is {how}, but the profile expects {version}"
            yield Problem(sentence=sentence, facts=(name, "expected"))


def compare_versions(versions: LibraryVersions, pin: str, *, newer: bool) -> Iterator[Problem]:
    """Compare a library, loaded or only installed, with the version that it should have.

    It should have the version that the package was built with, that is installed, and that is
    pinned.
    """
    name, loaded = versions.name, versions.loaded
    present = loaded or versions.installed
    state = f"{name} {present} is {'loaded' if loaded else 'installed'}"
    for expected, how, fact in (
        (versions.compiled, f"the package was built with {versions.compiled}", "compiled"),
        (loaded and versions.installed, f"{versions.installed} is installed", "installed"),
        (pin, f"the package requires {pin}", "required"),
    ):
        pairs = zip(present.split(".")[:3], expected.split(".")[:3], strict=False)
        ours, theirs = (
            tuple(int(part) if part.isdecimal() and len(part) < 10 else -1 for part in parts)
            for parts in zip(*pairs, strict=True)
        )
        later = newer and fact == "compiled" and ours[:1] == theirs[:1] and ours > theirs
        if expected and ours != theirs and not later:
            yield Problem(sentence=f"{state}, but {how}", facts=(name, fact))
