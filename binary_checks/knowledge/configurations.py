"""Puts together the binary configuration of a package out of all that states something of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from binary_checks.knowledge.accelerators import claim_accelerators
from binary_checks.knowledge.configuration_names import claim_by_file_name, claim_by_name
from binary_checks.model import ElfFile, Format, Kind, ObjectFile, Package, StaticArchive
from binary_checks.model.binary_configuration import (
    ASPECTS,
    Aspect,
    BinaryConfiguration,
    ClaimSource,
    ConfigurationClaim,
    StatedClaim,
    StatedConfiguration,
    agree,
)
from binary_checks.model.python_modules import parse_extension_name

_SYSTEMS = {Format.ELF: "linux", Format.MACHO: "macos", Format.PE: "windows"}
_LIBTORCH = "libtorch"
_SYSTEMS_OF_MEMBERS = {"ELF": "linux", "Mach-O": "macos", "COFF": "windows"}
_KINDS = {"CppArchive": _LIBTORCH, "UnpackedWheel": "wheel", "SingleObject": "object"}
_GRAFTED = re.compile(r"(?:^|/)[^/]*\.(?:libs|dylibs)/")
_FEW = 10  # as many times more symbols of one kind than of the other leave the other out
_NEW, _OLD = "St7__cxx1112basic_string", ("_ZNSs", "_ZNKSs")


def configure(package: Package, stated: StatedConfiguration) -> BinaryConfiguration:
    """The configuration, with every claim that was made of it."""
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
    """What the most trustworthy source says, as precisely as any that agrees with it."""
    order = list(ClaimSource)
    ranked = sorted(claims, key=lambda each: (each.by_absence, order.index(each.source)))
    if not ranked:
        return ""
    best = [
        each
        for each in ranked
        if (each.by_absence, each.source) == (ranked[0].by_absence, ranked[0].source)
    ]
    values = (_refine(name, each.value, ranked) for each in best)
    found = list(dict.fromkeys(values))
    return ", ".join(v for v in found if not any(_is_finer(name, w, v) for w in found))


def _refine(name: str, value: str, claims: Iterable[ConfigurationClaim]) -> str:
    finer = (each.value for each in claims if _is_finer(name, each.value, value))
    return next(finer, value)


def _is_finer(name: str, one: str, other: str) -> bool:
    """Whether the one says the same, and more."""
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
    if name_kind(package) == _LIBTORCH:
        yield from _claim_variant(loaded, archives)
        yield from _claim_by_archives(archives if not loaded else ())


def _claim_variant(loaded: Sequence[ObjectFile], archives: Sequence[StaticArchive]) -> Claimed:
    """A few archives beside shared libraries, as torch's are, make no static build."""
    shared = [item for item in loaded if item.kind is Kind.SHARED]
    if shared:
        yield "libtorch_variant", _by_bytes("shared", f"{len(shared)} shared libraries")
    elif archives:
        yield "libtorch_variant", _by_bytes("static", f"{len(archives)} static archives alone")


def _claim_by_archives(archives: Sequence[StaticArchive]) -> Claimed:
    """What the members of static archives are for, where there is nothing else."""
    seen: dict[tuple[str, str], str] = {}
    for archive in archives:
        for members in archive.members:
            if members.format in _SYSTEMS_OF_MEMBERS:
                system = _SYSTEMS_OF_MEMBERS[members.format]
                seen.setdefault(("system", system), archive.path)
                seen.setdefault(("architecture", members.architecture), archive.path)
        for value, count in (("cxx11", archive.strings.new), ("pre-cxx11", archive.strings.old)):
            if count:
                seen.setdefault(("cxx_abi", value), archive.path)
    for (aspect, value), path in seen.items():
        if value:
            yield aspect, _by_bytes(value, f"{path} has such members")


def name_kind(package: Package) -> str:
    """Name it as people do: "wheel", "conda", "libtorch", "installed"."""
    name = type(package).__name__
    return _KINDS.get(name) or name.removesuffix("Package").lower() or "package"


def _by_bytes(value: str, evidence: str) -> ConfigurationClaim:
    return ConfigurationClaim(value=value, source=ClaimSource.BYTES, evidence=evidence)


def _claim_systems(loaded: Sequence[ObjectFile]) -> Claimed:
    """What most objects are for: wheels carry helpers for other systems."""
    formats = Counter(item.format for item in loaded if item.format in _SYSTEMS)
    for found, count in formats.most_common(1):
        ours = [item for item in loaded if item.format == found]
        yield "system", _by_bytes(_SYSTEMS[found], _count(count, found))
        counted = Counter(item.architecture for item in ours)
        most = counted.most_common(1)[0][1]
        # Of a universal library every slice counts, of a stray one nothing.
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
    """Which std::string of libstdc++ the package's own objects ask for.

    One of few symbols does not count beside the other: libtorch_python.so has 255 and 1.
    """
    counts = Counter[str]()
    seen: dict[str, str] = {}
    for item in loaded:
        if not isinstance(item, ElfFile) or _GRAFTED.search(item.path):
            continue
        for value, count in (("cxx11", _count_new(item)), ("pre-cxx11", _count_old(item))):
            if count:
                counts[value] += count
                seen.setdefault(value, package.layout.shorten(item.path))
    for value, path in seen.items():
        if counts[value] * _FEW > counts.total():
            yield "cxx_abi", _by_bytes(value, f"{path} imports functions of that std::string")


def _count_new(item: ElfFile) -> int:
    names = item.imports
    return sum(_NEW in name for name in names.each_name()) if names.may_mention(_NEW) else 0


def _count_old(item: ElfFile) -> int:
    names = item.imports
    likely = any(map(names.may_mention, _OLD))
    return sum(name.startswith(_OLD) for name in names.each_name()) if likely else 0


def choose_stated(file_name: str, stated: StatedConfiguration) -> Iterator[StatedClaim]:
    """Choose what is stated of this package: what the user gives, and variables that are about it.

    What is given is outright where it names the package, or there is no other in the run.

    A job may judge a whole matrix under the variables of one of its cells. A variable that fits
    the name of some package of the run is about the packages that it fits; one that fits none and
    contradicts some is said once, of the first of these.
    """
    others = {name: tuple(claim_by_file_name(name)) for name in stated.file_names}
    for each in stated.claims:
        if each.files and not fnmatchcase(file_name, each.files):
            continue
        if each.claim.source is ClaimSource.GIVEN and (each.files or len(others) < 2):
            yield replace(each, claim=replace(each.claim, outright=True))
            continue
        if each.claim.source is not ClaimSource.VARIABLE or len(others) < 2:
            yield each
            continue
        fits = {name: _fits(each, claims) for name, claims in others.items()}
        against = [name for name, fit in fits.items() if fit is False]
        if True in fits.values():
            chosen = fits.get(file_name) is True
        elif against:
            chosen = file_name == against[0]
        else:
            chosen = True
        if chosen:
            yield each


def _fits(stated: StatedClaim, claims: Iterable[StatedClaim]) -> bool | None:
    """Whether a name agrees; None where it says nothing of that aspect."""
    values = [each.claim.value for each in claims if each.aspect == stated.aspect]
    return any(agree(stated.aspect, v, stated.claim.value) for v in values) if values else None
