"""Binary configurations: read from names, variables and objects, and combined."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from binary_checks.errors import ProfileError
from binary_checks.knowledge.inventory import find_strings
from binary_checks.knowledge.library_names import (
    cuda_of_library,
    cuda_of_name,
    is_cuda_library,
    is_driver_library,
    is_grafted_path,
    is_nvidia_library,
)
from binary_checks.knowledge.tags import read_claims
from binary_checks.model import (
    ANY_SYSTEM,
    ASPECTS,
    Aspect,
    BinaryConfiguration,
    Claims,
    ClaimSource,
    CondaLike,
    ConfigurationClaim,
    DeviceKind,
    ElfFile,
    Format,
    Kind,
    ObjectDetails,
    ObjectFile,
    Package,
    PythonClaim,
    StatedClaim,
    StatedConfiguration,
    StaticArchive,
    agree,
    claims_agree,
    parse_extension_name,
)

# The accelerator of a build: from labels and variables, and from its objects.

_CUDA = r"cu(?:da)?[-_]?(?P<cuda>\d{1,2}\.\d{1,2}|\d{2,3})"
_ROCM = r"(?:rocm|hip)[-_]?(?P<rocm>\d{1,2}(?:\.\d{1,2})*)"
_WORD = rf"(?:{_CUDA}|{_ROCM}|(?P<cpu>cpu)|(?P<xpu>xpu))"
_LABEL = re.compile(rf"(?:^|[.+_-]|pt\d{{2,3}}){_WORD}(?=$|[.+_-]|torch|cxx11)")
_EXTRA = re.compile(r"\bextra *== *[\"']([\w.-]+)[\"']")
_VALUE = re.compile(
    rf"(?:{_WORD}|(?P<plain>\d{{1,2}}\.\d{{1,2}})(?:\.\d+)?|(?P<family>cuda|rocm))"
    r"(?:-(?:full|aarch64|s390x|cxx11-abi|pre-cxx11))*"
)
_AMD = re.compile(
    r"lib(?:amdhip64|hsa-runtime64|roc(?:blas|fft|rand|solver|sparse|m_smi64|tx64)|"
    r"hip(?:blas(?:lt)?|fft|rand|solver|sparse(?:lt)?|rtc)|MIOpen|rccl)\b[^/]*?"
    r"(?:\.so(?:\.(?P<version>\d+))?[^/]*)"
)
_INTEL = re.compile(r"lib(?:sycl|ze_loader)\.so[.\d]*|sycl\d+\.dll|ze_loader\.dll", re.IGNORECASE)
_CUDA_MAJOR = re.compile(r"cuda \d")
_HIP = "libamdhip64"
"""The library whose number is ROCm's major version."""


def accelerator_of_label(label: str) -> str:
    """Return the accelerator in a local version label, "cuda 12.6" for ``cu126``, or "".

    Other results are "rocm 6.2" and "cpu". The label of flash-attn contains CUDA and more:
    ``cu12torch2.8cxx11abiTRUE``.
    """
    match = _LABEL.search(label)
    return _format_accelerator(match) if match else ""


def accelerator_of_value(text: str) -> str:
    """Return the accelerator in a variable's value.

    DESIRED_CUDA may be ``cu126``, ``12.6`` or ``cpu``.
    """
    match = _VALUE.fullmatch(text.strip().lower())
    if match is None:
        return ""
    if match["plain"]:
        return f"cuda {match['plain']}"
    return match["family"] or _format_accelerator(match)


def accelerator_of_distribution(name: str) -> str:
    """Return the accelerator in a project's name: ``nvidia-cublas-cu12``, ``faiss-cpu``.

    A name such as ``numba-cuda`` states CUDA, but no version of it.
    """
    if major := cuda_of_name(name):
        return f"cuda {major}"
    words = re.split("[-_.]", name.lower())
    return "cuda" if "cuda" in words else "cpu" if words[-1] == "cpu" and words[1:] else ""


def _format_accelerator(match: re.Match[str]) -> str:
    if version := match["cuda"]:
        # of versions of digits only, 126 is 12.6 and 92 is 9.2; 11 and 12 have no dot
        whole = "." in version or (len(version) == 2 and version.startswith("1"))
        return f"cuda {version}" if whole else f"cuda {version[:-1]}.{version[-1]}"
    if version := match["rocm"]:
        return f"rocm {version}"
    return "cpu" if match["cpu"] else "xpu"


DEVICE_CODE = "contains device code"
"""The verb phrase in the evidence of claims that are based on an object's device code."""


def claim_accelerators(package: Package) -> Iterator[ConfigurationClaim]:
    """Yield the accelerators of the objects' device code and of the libraries they need.

    If the needed libraries have no version of CUDA, the toolkits that made the device code have
    one. If all objects were read and none shows an accelerator, the CPU is claimed by absence.
    """
    found: dict[str, ConfigurationClaim] = {}
    for find in (_find_traces, _find_toolkit):
        if find is _find_toolkit and ("cuda" not in found or any(map(_CUDA_MAJOR.match, found))):
            break
        for item in package.objects:
            for value, evidence in find(item):
                shown = f"{package.layout.shorten(item.path)} {evidence}"
                claim = ConfigurationClaim(value=value, source=ClaimSource.BYTES, evidence=shown)
                found.setdefault(value, claim)
    yield from found.values()
    read = any(item.kind in (Kind.SHARED, Kind.EXECUTABLE) for item in package.objects)
    if read and not (found or package.unread or package.malformed):
        yield ConfigurationClaim(
            value="cpu",
            source=ClaimSource.BYTES,
            evidence="no object contains device code or needs a library of an accelerator",
            by_absence=True,
        )


def _find_traces(item: ObjectFile) -> Iterator[tuple[str, str]]:
    for code in getattr(item, "device_code", ()):
        if code.kind is DeviceKind.AMDGPU:
            yield "rocm", f"{DEVICE_CODE} for {code.architecture or 'AMD'}"
        elif code.kind is not DeviceKind.UNKNOWN:
            yield "cuda", f"{DEVICE_CODE} for {code.architecture or 'NVIDIA'}"
    for need in item.needed:
        name = need.name.rpartition("/")[2]
        if value := _accelerator_of_library(name):
            yield value, f"needs {name}"


def _find_toolkit(item: ObjectFile) -> Iterator[tuple[str, str]]:
    """Yield the major version of the toolkit that made most of an object's sampled cubins.

    Only the major version decides which drivers and libraries a build needs; a build for 12.6 may
    be compiled by a later 12.
    """
    sample: ObjectDetails | None = getattr(item, "device_sample", None)
    if sample is None or is_nvidia_library(item.path.rpartition("/")[2]):
        return
    counts: Counter[str] = Counter()
    for group in sample.cubins:
        counts[group.toolkit.partition(".")[0]] += group.count
    for major, _ in counts.most_common(1):
        if major:
            yield f"cuda {major}", f"has device code that CUDA {major} made"


def _accelerator_of_library(name: str) -> str:
    if is_cuda_library(name) or is_driver_library(name):
        major = cuda_of_library(name)
        return f"cuda {major}" if major else "cuda"
    if match := _AMD.fullmatch(name):
        return f"rocm {match['version']}" if match["version"] and _HIP in name else "rocm"
    return "xpu" if _INTEL.fullmatch(name) else ""


# Values of a binary configuration as written in names, in variables and by users.

_PYTHON = re.compile(
    r"(?P<implementation>cp|cpython|python|py|pp|pypy)?[ -]?(?P<major>[23])[._]?(?P<minor>\d{1,2})"
    r"(?:\.\d{1,2})?(?P<flags>t|mu|m)?(?P<later>\+)?"
)
_KINDS = {"wheel": "wheel", "manywheel": "wheel", "conda": "conda", "libtorch": "libtorch"}
_ARCHITECTURES = {
    **dict.fromkeys(("x86_64", "amd64", "x64", "x86-64"), "x86_64"),
    **dict.fromkeys(("aarch64", "arm64", "arm64-m1"), "aarch64"),
    **dict.fromkeys(("i686", "i386", "x86", "win32"), "i686"),
    **{name: name for name in ("armv7l", "ppc64le", "s390x", "riscv64", "loongarch64")},
}
_SYSTEMS = {
    "linux": "linux",
    **dict.fromkeys(("macos", "darwin", "osx"), "macos"),
    **dict.fromkeys(("windows", "win"), "windows"),
}
_ABIS = {
    **dict.fromkeys(("cxx11-abi", "cxx11", "1", "true"), "cxx11"),
    **dict.fromkeys(("pre-cxx11", "pre-cxx11-abi", "0", "false"), "pre-cxx11"),
}
_CHANNELS = {
    **dict.fromkeys(("stable", "release"), "stable"),
    **dict.fromkeys(("nightly", "dev"), "nightly"),
    **dict.fromkeys(("test", "rc"), "test"),
}
_VARIANT = re.compile(r"(?P<linking>shared|static)(?:-(?P<deps>with(?:out)?-deps))?(?:-debug)?")
_DATE = re.compile(r"(20\d{2})-?(\d{2})-?(\d{2})")


def read_python(text: str) -> str:
    """Read a Python version: "3.11" from ``3.11.4``, "3.13t" from ``cp313-cp313t``, or "2.7mu".

    The ``m`` of 3.x, which occurs in names of ABIs up to 3.7, is dropped because it has no meaning;
    the ``m`` of 2.7 is kept.
    """
    match = _PYTHON.fullmatch(text.strip().lower().rpartition("cp")[2])
    match = match or _PYTHON.fullmatch(text.strip().lower())
    if match is None:
        return ""
    flags = match["flags"] or ""
    if match["major"] == "3" and "m" in flags:
        flags = ""
    other = "pypy " if (match["implementation"] or "") in ("pp", "pypy") else ""
    return f"{other}{match['major']}.{int(match['minor'])}{flags}{match['later'] or ''}"


def read_variant(text: str) -> str:
    """Read a variant such as "shared-with-deps"; "shared" or "static" if only that is given."""
    match = _VARIANT.fullmatch(text.strip().lower())
    return "-".join(filter(None, (match["linking"], match["deps"]))) if match else ""


def read_version(text: str) -> str:
    """Return a version in its normal form without its local label, or ""."""
    try:
        return Version(text.strip()).public
    except (InvalidVersion, ValueError):
        return ""


def read_date(text: str) -> str:
    """Read a date: "2026-01-01", also from ``20260101``; return "" for any other text."""
    match = _DATE.fullmatch(text.strip())
    return "-".join(match.groups()) if match else ""


def _choose(known: Mapping[str, str]) -> Callable[[str], str]:
    return lambda text: known.get(text.strip().lower(), "")


def read_given(texts: Iterable[str]) -> Iterator[StatedClaim]:
    """Read configurations given by the user: ``python=3.11,cuda=12.6``.

    Raises ProfileError, one line.

    ``cuda`` and ``rocm`` mean the accelerator in that version. A glob on file names in front,
    ``torch-*:cuda=12.6``, restricts the configuration to matching packages.
    """
    for text in texts:
        files, _, pairs = text.rpartition(":")
        for pair in pairs.split(","):
            aspect, value = _read_pair(pair)
            claim = ConfigurationClaim(
                value=value, source=ClaimSource.GIVEN, evidence=f"given {pair}"
            )
            yield StatedClaim(aspect=aspect, claim=claim, files=files.strip())


def _read_pair(pair: str) -> tuple[str, str]:
    """Return the aspect and value of one ``KEY=VALUE``."""
    key, equals, value = (part.strip() for part in pair.partition("="))
    aspect = key.replace("-", "_")
    spelled = f"{key}{value}" if key in ("cuda", "rocm") else value
    aspect = "accelerator" if key in ("cuda", "rocm") else aspect
    if not equals or aspect not in READERS:
        known = ", ".join((*READERS, "cuda", "rocm"))
        raise ProfileError(
            f"{pair}: expected auto, variables, off or KEY=VALUE with KEY one of {known}"
        )
    found = READERS[aspect](spelled)
    if not found:
        raise ProfileError(f"{pair}: not understood; write it like {EXAMPLES[aspect]}")
    return aspect, found


READERS: Mapping[str, Callable[[str], str]] = {
    "kind": _choose(_KINDS),
    "python": read_python,
    "accelerator": accelerator_of_value,
    "system": _choose(_SYSTEMS),
    "architecture": _choose(_ARCHITECTURES),
    "cxx_abi": _choose(_ABIS),
    "libtorch_variant": read_variant,
    "channel": _choose(_CHANNELS),
    "version": read_version,
    "date": read_date,
}
"""Aspect -> function that reads its value; the function returns "" for an unknown text."""
EXAMPLES: Mapping[str, str] = {
    "kind": "wheel, conda, libtorch",
    "python": "3.11, 3.13t, cp311",
    "accelerator": "cpu, cu126, cuda12.6, rocm6.2, xpu",
    "system": "linux, macos, windows",
    "architecture": "x86_64, aarch64, arm64",
    "cxx_abi": "cxx11-abi, pre-cxx11",
    "libtorch_variant": "shared-with-deps, static-without-deps",
    "channel": "stable, nightly, test",
    "version": "2.15.0",
    "date": "2026-01-01",
}
"""Aspect -> example values for error messages."""


# Versions as packages state them: comparing two, and reading the date of a nightly.


def same_version(one: str, other: str) -> bool:
    """Return whether installers consider both versions equal.

    Invalid versions are compared as strings.
    """
    try:
        return Version(one.replace("_", "-")) == Version(other)
    except ValueError:  # invalid, or of thousands of digits
        return one == other


def development_number(version: str) -> int | None:
    """Return the number after ``.dev``, or None."""
    try:
        return Version(version).dev
    except ValueError:
        return None


def read_day(number: int) -> date | None:
    """Return the date for a number such as 20260131, or None."""
    try:
        return datetime.strptime(f"{number:08}", "%Y%m%d").date()
    except ValueError:
        return None


def find_day(version: str, uploaded: str, modified: str) -> tuple[str, date] | None:
    """Return the date of a published file with its meaning, such as "built"; None if unknown.

    The date comes from ``.devYYYYMMDD`` in the version, else from the upload time stated by the
    index (ISO 8601), else from the server's Last-Modified header.
    """
    number = development_number(version)
    if number is not None and (built := read_day(number)):
        return "built", built
    # Python 3.10 does not accept a Z
    iso = uploaded.replace("Z", "+00:00")[:32]
    for meaning, read, text in (
        ("uploaded", datetime.fromisoformat, iso),
        ("last modified", parsedate_to_datetime, modified),
    ):
        try:
            moment = read(text)
            day = (moment.astimezone(timezone.utc) if moment.tzinfo else moment).date()
        except (ValueError, TypeError, OverflowError):  # empty, or not a date
            continue
        return meaning, day
    return None


def judge_age(built: date, today: date, days: int, what: str) -> str:
    """Return a sentence if a build of that day is too old, or dated in the future; else ""."""
    if (age := (today - built).days) > days:
        return f"it was {what} {built}, {age} days ago; {days} are allowed"
    if built > today + timedelta(days=1):
        return f"it was {what} {built}, which is {-age} days from now"
    return ""


# The build as stated by a package's file name, tags and version.

_ABI_OF_LABEL = re.compile(r"cxx11abi(?P<new>true|false|[01])", re.IGNORECASE)
_LIBTORCH = re.compile(
    r"libtorch(?:-(?P<system>macos|win)(?:-(?P<machine>arm64|x86_64))?)?"
    r"(?:-(?P<abi>cxx11-abi|pre-cxx11))?(?:-(?P<variant>(?:shared|static)-with(?:out)?-deps))?"
    r"(?:-debug)?(?:-(?P<version>\d[^-]*?|latest))?\.(?:zip|tar\.gz|tgz)"
)
_BUILT_ON = re.compile(r"\.?dev(20\d{6})(?!\d)")
_OLD_FLAGS = re.compile(r"cp2\d(mu|m)")

_NIGHTLY = re.compile(r"[-_]nightly$", re.IGNORECASE)
"""The end of a project's name, or of a conda build string: ``pytorch-nightly``, ``0_nightly``."""

Found = tuple[str, str, str]
"""(aspect, value, evidence)."""


def claim_by_name(package: Package) -> Iterator[StatedClaim]:
    """Yield claims from the package's name, tags, version and build string, not from its bytes."""
    label = package.claims.variant or package.version.partition("+")[2]
    build = package.build if isinstance(package, CondaLike) else ""
    named = _read_package(package.name, package.version, build)
    stated = (*_read_label(label), *named, *_read_extras(package), *_read_claims(package.claims))
    yield from _state(stated, package.version)
    yield from _state(_read_libtorch(package.file_name))


def claim_by_file_name(file_name: str) -> Iterator[StatedClaim]:
    """Yield the claims of the file name of a wheel or libtorch archive, before it is read."""
    yield from _state(_read_libtorch(file_name))
    try:
        name, version, _, tags = parse_wheel_filename(file_name)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion, ValueError):
        return
    claims = read_claims(tags, version=str(version))
    kind = ("kind", "wheel", f"the name {file_name}")
    named = _read_package(name, str(version))
    stated = (kind, *_read_label(claims.variant), *named, *_read_claims(claims))
    yield from _state(stated, str(version))


def _state(found: Iterable[Found], version: str = "") -> Iterator[StatedClaim]:
    """Yield the claims of a name; ``version`` is the whole version in it, with its label."""
    for aspect, value, evidence in dict.fromkeys(found):
        full = version if aspect == "version" else ""
        claim = ConfigurationClaim(
            value=value, source=ClaimSource.NAME, evidence=evidence, full=full
        )
        yield StatedClaim(aspect=aspect, claim=claim)


def _read_label(variant: str) -> Iterator[Found]:
    evidence = f"the label {variant}"
    if value := accelerator_of_label(variant):
        yield "accelerator", value, evidence
    if match := _ABI_OF_LABEL.search(variant):
        new = match["new"].lower() in ("true", "1")
        yield "cxx_abi", "cxx11" if new else "pre-cxx11", evidence


def _read_package(name: str, version: str, build: str = "") -> Iterator[Found]:
    if value := accelerator_of_distribution(name):
        yield "accelerator", value, f"the name {name}"
    named = {f"the name {name}": name, f"the build string {build}": build}
    nightly = next((evidence for evidence, text in named.items() if _NIGHTLY.search(text)), "")
    if nightly:
        yield "channel", "nightly", nightly
    yield from (each for each in _read_version(version) if not (nightly and each[0] == "channel"))


def _read_extras(package: Package) -> Iterator[Found]:
    """Read the versions of CUDA that a package offers as extras, if its name states CUDA alone."""
    if accelerator_of_distribution(package.name) != "cuda":
        return
    names = (match[1] for each in package.claims.requirements for match in _EXTRA.finditer(each))
    for name in sorted(set(names)):
        if (value := accelerator_of_label(name)).startswith("cuda "):
            yield "accelerator", value, f"the extra {name}"


def _read_version(text: str) -> Iterator[Found]:
    try:
        version = Version(text)
    except (InvalidVersion, ValueError):  # conda accepts other versions
        return
    evidence = f"the version {text}"
    yield "version", version.public, evidence
    dated = _BUILT_ON.search(text)
    channel = "nightly" if version.is_devrelease else "test" if version.pre else "stable"
    yield "channel", channel, evidence
    if dated and (date := READERS["date"](dated[1])):
        yield "date", date, evidence


def _read_claims(claims: Claims) -> Iterator[Found]:
    for python in claims.pythons:
        if value := _format_python(python):
            yield "python", value, f"the tag {python.name}"
    for system in claims.systems:
        evidence = f"the tag {system.name}"
        if system.system and system.system != ANY_SYSTEM:
            yield "system", system.system, evidence
        for architecture in system.architectures:
            yield "architecture", architecture, evidence


def _format_python(claim: PythonClaim) -> str:
    """Return the Python versions of a tag, or "" if it has none."""
    if claim.version is None:
        return ""
    number = "{}.{}".format(*claim.version)
    if claim.implementation not in ("", "cpython"):
        return f"{claim.implementation} {number}"
    if not claim.is_for_one_version:
        return f"{number}+"
    old = _OLD_FLAGS.fullmatch(claim.abi)
    return f"{number}{old[1] if old else 't' if claim.free_threaded else ''}"


def _read_libtorch(file_name: str) -> Iterator[Found]:
    """Read ``libtorch-cxx11-abi-shared-with-deps-2.5.0%2Bcu121.zip``."""
    match = _LIBTORCH.fullmatch(file_name.replace("%2B", "+"))
    if match is None:
        return
    evidence = f"the name {file_name}"
    yield "kind", "libtorch", evidence
    for aspect, group in (
        ("system", "system"),
        ("architecture", "machine"),
        ("cxx_abi", "abi"),
        ("libtorch_variant", "variant"),
    ):
        if match[group]:
            yield aspect, READERS[aspect](match[group]), evidence
    public, _, label = (match["version"] or "").partition("+")
    if value := accelerator_of_label(label):
        yield "accelerator", value, evidence
    yield from _read_version(public)


# The binary configuration of a package, combined from all claims about it.

_SYSTEMS_OF_FORMATS = {Format.ELF: "linux", Format.MACHO: "macos", Format.PE: "windows"}
_LIBTORCH_KIND = "libtorch"
_SYSTEMS_OF_MEMBERS = {"ELF": "linux", "Mach-O": "macos", "COFF": "windows"}
_KINDS_OF_PACKAGES = {
    "CppArchive": _LIBTORCH_KIND,
    "UnpackedWheel": "wheel",
    "SingleObject": "object",
}
_FEW = 10  # symbols of one std::string are ignored if the other has this many times more


def configure(package: Package, stated: StatedConfiguration) -> BinaryConfiguration:
    """Return a package's configuration, with every claim about it."""
    claims: dict[str, list[ConfigurationClaim]] = {name: [] for name in ASPECTS}
    for name, claim in _claim_by_bytes(package):
        claims[name].append(claim)
    for each in (*claim_by_name(package), *choose_stated(package.file_name, stated)):
        claims[each.aspect].append(each.claim)
    return BinaryConfiguration(
        **{
            name: Aspect(value=choose_value(name, found), claims=tuple(found))
            for name, found in claims.items()
            if found
        }
    )


def choose_value(name: str, claims: Iterable[ConfigurationClaim]) -> str:
    """Return the most trustworthy source's value, or a more precise value that agrees with it."""
    order = list(ClaimSource)
    ranked = sorted(claims, key=lambda each: (each.by_absence, order.index(each.source)))
    if not ranked:
        return ""
    best = [
        each
        for each in ranked
        if (each.by_absence, each.source) == (ranked[0].by_absence, ranked[0].source)
    ]
    every = [each.value for each in ranked]
    values = (
        next((finer for finer in every if _is_finer(name, finer, each.value)), each.value)
        for each in best
    )
    found = list(dict.fromkeys(values))
    return ", ".join(v for v in found if not any(_is_finer(name, w, v) for w in found))


def _is_finer(name: str, one: str, other: str) -> bool:
    """Return whether the first value agrees with the other and is more precise."""
    if one == other or not agree(name, one, other):
        return False
    if name == "python":
        return other.endswith("+") and not one.endswith("+")
    return name in ("accelerator", "libtorch_variant") and len(one) > len(other)


Claimed = Iterator[tuple[str, ConfigurationClaim]]


def _claim_by_bytes(package: Package) -> Claimed:
    yield "kind", _by_bytes(name_kind(package), "its content")
    yield from (("accelerator", claim) for claim in claim_accelerators(package))
    loaded = [item for item in package.objects if item.kind in (Kind.SHARED, Kind.EXECUTABLE)]
    yield from _claim_systems(loaded)
    yield from _claim_pythons(package, loaded)
    yield from _claim_cxx_abi(package, loaded)
    archives = tuple(package.objects_of(StaticArchive))
    if name_kind(package) == _LIBTORCH_KIND:
        yield from _claim_variant(loaded, archives)
        yield from _claim_by_archives(archives if not loaded else ())


def _claim_variant(loaded: Sequence[ObjectFile], archives: Sequence[StaticArchive]) -> Claimed:
    """Claim a shared or a static build.

    A few static archives next to shared libraries, as in torch, do not make a static build.
    """
    shared = [item for item in loaded if item.kind is Kind.SHARED]
    if shared:
        yield "libtorch_variant", _by_bytes("shared", f"{len(shared)} shared libraries")
    elif archives:
        yield "libtorch_variant", _by_bytes("static", f"{len(archives)} static archives alone")


def _claim_by_archives(archives: Sequence[StaticArchive]) -> Claimed:
    """Claim system, architecture and ABI from the members of static archives."""
    seen: dict[tuple[str, str], str] = {}
    for archive in archives:
        for members in archive.members:
            if members.format in _SYSTEMS_OF_MEMBERS:
                seen.setdefault(("system", _SYSTEMS_OF_MEMBERS[members.format]), archive.path)
                seen.setdefault(("architecture", members.architecture), archive.path)
        for value, count in (("cxx11", archive.strings.new), ("pre-cxx11", archive.strings.old)):
            if count:
                seen.setdefault(("cxx_abi", value), archive.path)
    for (aspect, value), path in seen.items():
        if value:
            yield aspect, _by_bytes(value, f"{path} has such members")


def name_kind(package: Package) -> str:
    """Return the usual name of the package's kind: "wheel", "conda", "libtorch", "installed"."""
    name = type(package).__name__
    return _KINDS_OF_PACKAGES.get(name) or name.removesuffix("Package").lower() or "package"


def _by_bytes(value: str, evidence: str) -> ConfigurationClaim:
    return ConfigurationClaim(value=value, source=ClaimSource.BYTES, evidence=evidence)


def _claim_systems(loaded: Sequence[ObjectFile]) -> Claimed:
    """Claim the system of most objects, since wheels contain helpers for other systems."""
    formats = Counter(item.format for item in loaded if item.format in _SYSTEMS_OF_FORMATS)
    for found, count in formats.most_common(1):
        ours = [item for item in loaded if item.format == found]
        yield "system", _by_bytes(_SYSTEMS_OF_FORMATS[found], _count(count, found))
        counted = Counter(item.architecture for item in ours)
        most = counted.most_common(1)[0][1]
        # Every slice of a universal library counts; a single foreign object does not.
        yield from (
            ("architecture", _by_bytes(name, _count(number, found)))
            for name, number in sorted(counted.items())
            if number * 2 > most
        )


def _count(number: int, found: Format) -> str:
    return f"{number} {found} object{'s' if number > 1 else ''}"


def _claim_pythons(package: Package, loaded: Sequence[ObjectFile]) -> Claimed:
    seen: dict[str, str] = {}
    for item in loaded:
        name = parse_extension_name(item.path)
        if name is None or name.version is None or name.stable:
            continue
        value = "{}.{}{}".format(*name.version, "t" if name.free_threaded else "")
        if name.implementation not in ("", "cpython"):
            value = f"{name.implementation} {value}"
        seen.setdefault(value, package.layout.shorten(item.path))
    yield from (("python", _by_bytes(value, path)) for value, path in seen.items())


def _claim_cxx_abi(package: Package, loaded: Sequence[ObjectFile]) -> Claimed:
    """Claim the std::string of libstdc++ that the package's own objects import.

    A few symbols of one std::string do not count against many of the other: libtorch_python.so has
    255 of one and 1 of the other.
    """
    counts = Counter[str]()
    seen: dict[str, str] = {}
    for item in loaded:
        if not isinstance(item, ElfFile) or is_grafted_path(item.path):
            continue
        for value, count in zip(("cxx11", "pre-cxx11"), find_strings(item), strict=True):
            if count:
                counts[value] += count
                seen.setdefault(value, package.layout.shorten(item.path))
    for value, path in seen.items():
        if counts[value] * _FEW > counts.total():
            yield "cxx_abi", _by_bytes(value, f"{path} imports functions of that std::string")


def choose_stated(file_name: str, stated: StatedConfiguration) -> Iterator[StatedClaim]:
    """Yield the statements of the user and of environment variables that apply to this package.

    A statement of the user is ``outright`` if it names the package, or the run has no other
    package.

    A job may judge a whole matrix under the variables of one of its cells. A variable that agrees
    with the names of some packages of the run applies only to these packages. A variable that
    agrees with none and contradicts some is reported once, for the first of these packages.
    """
    alone = len(stated.file_names) < 2
    for each, about in zip(stated.claims, stated.derive(_find_subjects), strict=True):
        if each.files and not fnmatchcase(file_name, each.files):
            continue
        if each.claim.source is ClaimSource.GIVEN and (each.files or alone):
            yield replace(each, claim=replace(each.claim, outright=True))
        elif about is None or file_name in about:
            yield each


def _find_subjects(stated: StatedConfiguration) -> tuple[frozenset[str] | None, ...]:
    """Return, for each claim, the packages of the run that it applies to; None: all packages."""
    others = {name: tuple(claim_by_file_name(name)) for name in stated.file_names}
    return tuple(_find_subjects_of(each, others) for each in stated.claims)


def _find_subjects_of(
    stated: StatedClaim, others: Mapping[str, tuple[StatedClaim, ...]]
) -> frozenset[str] | None:
    if stated.claim.source is not ClaimSource.VARIABLE or len(others) < 2:
        return None
    fits = {
        name: _fits(stated, claims)
        for name, claims in others.items()
        if not stated.files or fnmatchcase(name, stated.files)
    }
    fitting = frozenset(name for name, fit in fits.items() if fit)
    against = [name for name, fit in fits.items() if fit is False]
    return fitting or (frozenset(against[:1]) or None)


def _fits(stated: StatedClaim, claims: Iterable[StatedClaim]) -> bool | None:
    """Return whether a file name's claims agree with a statement; None without such a claim."""
    about = [each.claim for each in claims if each.aspect == stated.aspect]
    return any(claims_agree(stated.aspect, each, stated.claim) for each in about) if about else None
