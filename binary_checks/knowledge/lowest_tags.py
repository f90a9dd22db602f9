"""Finds the lowest platform tag that is true of a package, by what its objects need."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from binary_checks.knowledge.macos_tags import (
    FIRST_BY_YEARS,
    plain_architecture,
    read_version,
    spell_processor,
)
from binary_checks.model import (
    ElfFile,
    Kind,
    Linkage,
    MachOFile,
    NeededVersion,
    ObjectFile,
    Package,
    Policy,
)
from binary_checks.systems.macos_libraries import macos_exports, macos_library_versions
from binary_checks.systems.policies import policies

_LOADED = (Kind.SHARED, Kind.EXECUTABLE)
_GLIBCS_OWN = re.compile(r"lib(?:c\.so\.6|m\.so\.6|pthread\.so\.0|dl\.so\.2|rt\.so\.1)|ld-linux.*")
_MUSLS_OWN = re.compile(r"libc\.so|libc\.musl-.*|ld-musl-.*")  # all of them are its loader
_LIBPYTHON = re.compile(r"libpython\d.*")
_TIME64 = re.compile(r"__\w*time64")
"""What musl calls a function of 64-bit time on a 32-bit system: since 1.2, the first with these."""
_NODE = re.compile(r"(?P<prefix>[A-Z]+)_(?P<numbers>\d{1,9}(?:\.\d{1,9})*) of (?P<library>.+)")
_FIRST_WITH_TIME64 = (1, 2)
_OLDEST_MACOS = {"aarch64": (11, 0)}


@dataclass(frozen=True, kw_only=True, slots=True)
class TagReason:
    """Why a lower tag would not be true."""

    path: str  # the object that needs it
    need: str  # "GLIBC_2.28 of libc.so.6", "libcuda.so.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class LowestTag:
    """The lowest tag of one libc, or of macOS, and architecture."""

    family: str  # "manylinux", "musllinux" or "macosx"
    architecture: str  # as tags spell it
    version: tuple[int, int] | None  # None: no tag of the family allows what is needed
    reasons: tuple[
        TagReason, ...
    ] = ()  # against the next lower tag; without a version, against all
    otherwise: tuple[int, int] | None = None
    """Without a version: the lowest by all but the libraries that no tag allows."""

    @property
    def tag(self) -> str:
        """The platform tag; "" for none."""
        return self._spell(self.version)

    @property
    def otherwise_tag(self) -> str:
        """The same by all but the libraries that no tag allows."""
        return self._spell(self.otherwise)

    def _spell(self, version: tuple[int, int] | None) -> str:
        if version is None:
            return ""
        return "{}_{}_{}_{}".format(self.family, *version, self.architecture)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Needs:
    """What one ELF object needs of the system that it is loaded in."""

    item: ElfFile
    libraries: tuple[str, ...]
    versions: tuple[NeededVersion, ...]


def find_lowest_tags(package: Package, linkage: Linkage | None) -> tuple[LowestTag, ...]:
    """The lowest true tags: for Linux by libc and architecture, for macOS by architecture.

    Libraries that the package has, that Python has, or that a required distribution may have are
    not needed of the system. Without a linkage, names alone tell which those of the package are.
    Raises Unavailable where symbols are not known.
    """
    return (*_lowest_linux(package, linkage), *_lowest_macos(package))


def _lowest_linux(package: Package, linkage: Linkage | None) -> Iterator[LowestTag]:
    own = {name for item in package.objects for name in (item.file_name, item.name)}
    loaded = [item for item in package.objects_of(ElfFile) if item.kind in _LOADED]
    for architecture in sorted({item.architecture for item in loaded}):
        ours = [item for item in loaded if item.architecture == architecture]
        needs = [_find_needs(item, linkage, own) for item in ours]
        for libc, family in _find_libcs(needs):
            if known := policies(libc, architecture):
                yield _lowest_of(family, architecture, known, needs)


def _find_needs(item: ElfFile, linkage: Linkage | None, own: set[str]) -> _Needs:
    edges = linkage.edges_of(item.path, item.architecture) if linkage else ()
    if edges:
        libraries = tuple(
            edge.needed
            for edge in edges
            if (edge.resolved or "system:").startswith("system:")
            and not (edge.may_come_with or edge.elsewhere)
        )
    else:  # nobody loads it, or no loader was simulated
        names = (need.name for need in item.needed)
        libraries = tuple(n for n in names if n not in own and not _LIBPYTHON.fullmatch(n))
    versions = (each for each in item.symbol_versions if each.library in libraries)
    return _Needs(
        item=item,
        libraries=libraries,
        versions=tuple(each for each in versions if not each.weak),
    )


def _find_libcs(needs: Iterable[_Needs]) -> Iterator[tuple[str, str]]:
    """The libcs that the objects need; both, where they need none."""
    names = {name for each in needs for name in each.libraries}
    glibc = any(map(_GLIBCS_OWN.fullmatch, names))
    musl = any(map(_MUSLS_OWN.fullmatch, names))
    if glibc or not musl:
        yield "glibc", "manylinux"
    if musl or not glibc:
        yield "musl", "musllinux"


def _lowest_of(
    family: str, architecture: str, known: tuple[Policy, ...], needs: list[_Needs]
) -> LowestTag:
    """Lowest of the policies, which stand in order, to which nothing objects."""
    against: tuple[TagReason, ...] = ()
    for policy in known:
        found = tuple(_object_to(policy, needs))
        if not found:
            return LowestTag(
                family=family, architecture=architecture, version=policy.minimum, reasons=against
            )
        against = tuple(_keep_newest(found))
    outside = {name for each in needs for name in each.libraries} - known[-1].libraries
    others = [
        _Needs(
            item=each.item,
            libraries=tuple(name for name in each.libraries if name not in outside),
            versions=tuple(need for need in each.versions if need.library not in outside),
        )
        for each in needs
    ]
    fitting = (policy.minimum for policy in known if not any(_object_to(policy, others)))
    return LowestTag(
        family=family,
        architecture=architecture,
        version=None,
        reasons=against,
        otherwise=next(fitting, None),
    )


def _object_to(policy: Policy, needs: Iterable[_Needs]) -> Iterator[TagReason]:
    for ours in needs:
        item, path = ours.item, ours.item.path
        for name in ours.libraries:
            if policy.libc == "musl" and _MUSLS_OWN.fullmatch(name):
                continue
            if name not in policy.libraries:
                yield TagReason(path=path, need=name)
            elif forbidden := policy.forbidden_symbols.get(name):
                for symbol in sorted(item.imports.among(forbidden)):
                    if any(not each.weak for each in item.imports.find(symbol)):
                        yield TagReason(path=path, need=f"{symbol} of {name}")
        for need in ours.versions:
            if policy.allows(need.version) is False:
                yield TagReason(path=path, need=f"{need.version} of {need.library}")
        if policy.libc == "musl" and policy.minimum < _FIRST_WITH_TIME64:
            for symbol in sorted(filter(_TIME64.fullmatch, item.imports.names))[:1]:
                yield TagReason(path=path, need=f"{symbol} of musl 1.2")


def _keep_newest(reasons: Iterable[TagReason]) -> Iterator[TagReason]:
    """Of version nodes of one library and prefix the newest alone: it implies the others."""
    nodes: dict[str, list[tuple[tuple[int, ...], TagReason]]] = {}
    for reason in reasons:
        if match := _NODE.fullmatch(reason.need):
            numbers = tuple(map(int, match["numbers"].split(".")))
            nodes.setdefault(match["prefix"] + match["library"], []).append((numbers, reason))
        else:
            yield reason
    for ours in nodes.values():
        newest = max(numbers for numbers, _ in ours)
        yield from (reason for numbers, reason in ours if numbers == newest)


def _lowest_macos(package: Package) -> Iterator[LowestTag]:
    """By what each slice says of itself, and by the age of the libraries and symbols it needs."""
    by_architecture: dict[str, list[tuple[tuple[int, int], TagReason]]] = {}
    for item in package.objects_of(MachOFile):
        if item.kind in _LOADED and "macos" in (item.platforms or ("macos",)):
            architecture = plain_architecture(item.architecture)
            by_architecture.setdefault(architecture, []).extend(_date(item))
    for architecture, found in sorted(by_architecture.items()):
        floor = _OLDEST_MACOS.get(architecture, (10, 0))
        newest = max([floor, *(version for version, _ in found)])
        reasons = tuple(dict.fromkeys(reason for version, reason in found if version == newest))
        yield LowestTag(
            family="macosx",
            architecture=spell_processor(architecture),
            version=(newest[0], 0) if newest[0] >= FIRST_BY_YEARS else newest,
            reasons=reasons if newest > floor else (),
        )


def _date(item: MachOFile) -> Iterator[tuple[tuple[int, int], TagReason]]:
    yield (
        read_version(item.minimum_os or "0.0"),
        TagReason(path=item.path, need=f"minos {item.minimum_os}"),
    )
    for need in item.needed:
        history = macos_library_versions(need.name)
        if history is not None and not need.weak:
            yield history[0], TagReason(path=item.path, need=need.name)
    for library, names in item.imports.strong.items():
        for version, symbols in _newer_exports(library):
            if found := sorted(symbols.intersection(names)):
                yield version, TagReason(path=item.path, need=f"{found[0]} of {library}")


@functools.lru_cache(maxsize=256)  # the objects of a package need the same few
def _newer_exports(library: str) -> tuple[tuple[tuple[int, int], frozenset[str]], ...]:
    known = macos_exports(library, (10, 0)) or {}
    return tuple((first, frozenset(names)) for first, names in known.items() if first)


def is_loaded(item: ObjectFile) -> bool:
    """Whether a loader of a host's code takes it."""
    return item.kind in _LOADED
