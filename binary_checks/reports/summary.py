"""A short summary of a package: contents, requirements, and the oldest supported systems."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, groupby
from typing import TypeVar

from binary_checks.errors import Unavailable
from binary_checks.knowledge.cuda import lowest_driver, oldest_driver_of_ptx
from binary_checks.knowledge.inventory import (
    NeededLibrary,
    each_python,
    list_bundled,
    list_needed,
    newest_nodes,
    newest_stable_symbol,
    read_cpp_interface,
)
from binary_checks.knowledge.tags import LowestTag, find_lowest_tags
from binary_checks.model import (
    BinaryConfiguration,
    CubinGroup,
    DeviceCode,
    DeviceContainers,
    DeviceDetails,
    DeviceFile,
    DeviceLinking,
    DeviceTarget,
    Distribution,
    ElfFile,
    Linkage,
    LinkedLibraries,
    Package,
    PeFile,
    PtxGroup,
    StaticArchive,
    Whence,
    is_extension,
)
from binary_checks.wording.sentences import describe_configuration, describe_linked

_WIDTH = 14  # characters of a heading
_FEW = 3
_MOST = 12  # libraries of one kind that are listed
_MUSL_HINT = " or later; musl's symbols have no versions that would show more"
_API_SET = re.compile(r"(?P<family>(?:api|ext)-ms-[a-z]+-[a-z]+)-.*", re.IGNORECASE)


def write_summary(
    package: Package,
    linkage: Linkage | None = None,
    configuration: BinaryConfiguration | None = None,
    linked: LinkedLibraries | None = None,
    details: DeviceDetails | None = None,
) -> Iterator[str]:
    """Yield the lines of the summary, without line ends; without a linkage, omit requirements."""
    kinds = Counter(f"{item.format} {item.kind.value}" for item in package.objects)
    title = f"{package.name} {package.version}".rstrip()
    yield f"{package.file_name}: {title}, {package.size:,} bytes"
    yield from (f"  {count:>6} {kind}" for kind, count in sorted(kinds.items()))
    if configuration is not None:
        yield from _under("configuration", (describe_configuration(configuration),))
    if systems := ", ".join(claim.name for claim in package.claims.systems):
        yield from _under("claims", (systems,))
    yield from _under("Pythons", _describe_pythons(package))
    if package.objects:
        yield from _under("lowest tag", _describe_tags(package, linkage))
        yield from _write_needs(package, linkage)
        yield from _under("bundled", _describe_bundled(package))
        yield from _under("C++", _describe_cpp(package))
        for heading, text in describe_linked(linked) if linked is not None else ():
            yield from _under(heading, (text,))
        yield from _under("GPU code", list_architectures(package))
    for malformed in package.malformed:
        yield f"malformed: {malformed.path}: {malformed.reason}"
    for unread in package.unread:
        yield f"not read: {unread.path}: {unread.reason}"
    yield from write_gpu_code(package)
    if details is not None:
        yield from write_insides(package, details)


def _under(heading: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield a line for each text; the first line begins with the heading."""
    for text in texts:
        yield f"  {heading:<{_WIDTH}}{text}"
        heading = ""


def _describe_pythons(package: Package) -> Iterator[str]:
    if pythons := list(each_python(package)):
        yield ", ".join(pythons)
    if isinstance(package, Distribution) and (requires := package.header("Requires-Python")):
        yield f"Requires-Python: {requires}"
    if any(claim.abi.startswith("abi3") for claim in package.claims.pythons):
        modules = [item for item in package.objects if is_extension(item)]
        try:
            found = newest_stable_symbol(modules)
        except Unavailable as error:
            yield f"oldest Python whose stable ABI suffices: not known: {error}"
            return
        if found is not None:
            (major, minor), symbol = found
            yield f"oldest Python whose stable ABI suffices: {major}.{minor} ({symbol})"


def _describe_tags(package: Package, linkage: Linkage | None) -> Iterator[str]:
    try:
        lowest = find_lowest_tags(package, linkage)
    except Unavailable as error:
        yield f"not known: {error}"
        return
    for each in lowest:
        why = _describe_reasons(each)
        if each.tag:
            hint = _MUSL_HINT if each.family == "musllinux" and not why else ""
            yield f"{each.tag}{f': {why}' if why else hint}"
        else:
            rest = f"; but for that {each.otherwise_tag}" if each.otherwise_tag else ""
            yield f"no {each.family} tag for {each.architecture}: {why}{rest}"


def _describe_reasons(lowest: LowestTag) -> str:
    """Return the requirements of the lowest tag, with the objects that cause them."""
    needs: dict[str, list[str]] = {}
    for reason in lowest.reasons:
        needs.setdefault(reason.need, []).append(reason.path.rpartition("/")[2])
    texts = [f"{need} in {paths[0]}{_more(paths[1:])}" for need, paths in needs.items()]
    return f"{', '.join(texts[:_FEW])}{_more(texts[_FEW:])}"


def _more(left: list[str]) -> str:
    return f" and {len(left):,} more" if left else ""


def _write_needs(package: Package, linkage: Linkage | None) -> Iterator[str]:
    needed = list_needed(linkage) if linkage is not None else ()
    by_origin: dict[Whence, list[str]] = {}
    for library in needed:
        by_origin.setdefault(library.whence, []).append(_describe_needed(package, library))
    for origin, heading in _HEADINGS.items():
        few = origin in (Whence.SYSTEM, Whence.PYTHON)
        texts = by_origin.get(origin, [])
        left = [f"and {len(texts) - _MOST:,} more"] if len(texts) > _MOST else []
        lines = [", ".join(_fold(texts))] if few and texts else [*texts[:_MOST], *left]
        yield from _under(heading, lines)


def _fold(names: Iterable[str]) -> Iterator[str]:
    """Yield names, with Windows' API sets grouped by family: the C runtime alone has fifteen."""
    families = Counter[str]()
    for name in names:
        if match := _API_SET.fullmatch(name):
            families[match["family"].lower()] += 1
        else:
            yield name
    yield from (f"{family}-* ({count})" for family, count in sorted(families.items()))


_HEADINGS = {
    Whence.SYSTEM: "system",
    Whence.PYTHON: "of Python",
    Whence.REQUIRED: "of others",
    Whence.MISSING: "missing",
}


def _describe_needed(package: Package, library: NeededLibrary) -> str:
    if library.whence in (Whence.SYSTEM, Whence.PYTHON):
        about = (*newest_nodes(package, library.name), library.partly)
        notes = ", ".join(filter(None, about))
        return f"{library.name} ({notes})" if notes else library.name
    paths = [package.layout.shorten(path) for path in library.needed_by]
    origin = ""
    if library.distributions:
        perhaps = "" if library.found else "perhaps "
        origin = f" {perhaps}from {' or '.join(library.distributions)}"
    return f"{library.name}{origin}, needed by {paths[0]}{_more(paths[1:])}"


def _describe_bundled(package: Package) -> Iterator[str]:
    bundled = list_bundled(package)
    for path, size in bundled[:_MOST]:
        yield f"{size:>12,}  {package.layout.shorten(path)}"
    if len(bundled) > 1:
        yield f"{sum(size for _, size in bundled):>12,}  all {len(bundled)}"


def _describe_cpp(package: Package) -> Iterator[str]:
    try:
        found = read_cpp_interface(package)
    except Unavailable as error:
        yield f"not known: {error}"
        return
    if found is None:
        return
    yield ", ".join(
        filter(
            None,
            (
                *found.libraries,
                *found.versions,
                f"new std::string in {found.new_strings}" if found.new_strings else "",
                f"old std::string in {found.old_strings}" if found.old_strings else "",
                "Visual C++ {}.{}".format(*found.toolset) if found.toolset else "",
            ),
        )
    )


# Tables of a package's device code by architecture, one for each library.

_WithDeviceCode = ElfFile | PeFile | StaticArchive | DeviceFile
_COLUMNS = ("architecture", "kind", "linking", "entries", "compressed", "containers", "bytes")
_WORDS = 3  # columns of words, which precede the columns of numbers
_RELOCATABLE = (DeviceLinking.RELINKABLE, DeviceLinking.UNUSABLE)
_NUMBERS = re.compile(r"(\d+)")


_Group = TypeVar("_Group", CubinGroup, PtxGroup)
_Row = tuple[DeviceCode, str]  # the code for one target, and how many of all containers have it


def write_gpu_code(package: Package) -> Iterator[str]:
    """Yield a table for each library with device code, and remarks on doubtful or damaged code."""
    carriers = [item for item in package.objects if isinstance(item, _WithDeviceCode)]
    yield from _write_tables([item for item in carriers if item.device_code], package)
    for item in carriers:
        path = package.layout.shorten(item.path)
        for group in item.device_containers:
            plural = "" if group.count == 1 else "s, the first"
            place = f"{group.count} container{plural} at byte {group.offset:#x}"
            place = place if group.count else f"all from byte {group.offset:#x} on"
            if group.reason:
                yield f"device code in doubt: {path}: {place}: {group.reason}"
        for fault in item.device_faults:
            yield f"damaged device code: {path}: at byte {fault.offset:#x}: {fault.reason}"


def list_architectures(package: Package) -> Iterator[str]:
    """Yield the targets of device code by kind: "sass sm_70, sm_90"."""
    carriers = (item for item in package.objects if isinstance(item, _WithDeviceCode))
    by_kind: dict[str, dict[str, None]] = {}
    for code in sorted((code for item in carriers for code in item.device_code), key=_natural):
        unusable = "unusable " if code.linking is DeviceLinking.UNUSABLE else ""
        by_kind.setdefault(unusable + code.kind.value, {})[code.architecture or "?"] = None
    yield from (f"{kind} {', '.join(names)}" for kind, names in by_kind.items())


def _write_tables(carriers: list[_WithDeviceCode], package: Package) -> Iterator[str]:
    """Yield a table for each library, largest first, and one for all if there are several."""
    for item in sorted(carriers, key=lambda item: (-_bytes_of(item.device_code), item.path)):
        yield ""
        yield _title(package.layout.shorten(item.path), item.device_code, item.size)
        yield from _write_table(_rows(item.device_code, item.device_containers))
    if len(carriers) > 1:
        codes = _add_up(item.device_code for item in carriers)
        containers = [group for item in carriers for group in item.device_containers]
        # by file: the slices of a fat binary would count the file twice
        inflated = sum({item.path: item.size for item in package.objects}.values())
        yield ""
        yield _title(f"all {len(carriers)} together", codes, inflated)
        yield from _write_table(_rows(codes, containers))


def _title(what: str, codes: Iterable[DeviceCode], whole: int) -> str:
    size = _bytes_of(codes)
    share = f" ({size / whole:.0%} of {whole:,})" if whole else ""
    return f"device code of {what}: {size:,} bytes{share}"


def _bytes_of(codes: Iterable[DeviceCode]) -> int:
    return sum(code.bytes for code in codes)


def _rows(codes: Iterable[DeviceCode], groups: Iterable[DeviceContainers]) -> Iterator[_Row]:
    having: Counter[tuple[DeviceTarget, str]] = Counter()
    total: Counter[str] = Counter()
    for group in groups:
        sort = _sort_of(group.linking)
        total[sort] += group.count
        having.update(dict.fromkeys(((target, sort) for target in group.targets), group.count))
    for code in sorted(codes, key=_natural):
        target = DeviceTarget(kind=code.kind, architecture=code.architecture)
        sort = _sort_of(code.linking)
        yield code, f"{having[target, sort]}/{total[sort]}"


def _sort_of(linking: DeviceLinking) -> str:
    """Return the kind of containers that a row counts.

    A container may have both usable and unusable code.
    """
    return "relocatable" if linking in _RELOCATABLE else linking.value


def _natural(code: DeviceCode) -> tuple[str, list[tuple[int, str]], str]:
    """Return a sort key by which sm_90 comes before sm_100."""
    return code.kind.value, architecture_order(code.architecture), code.linking.value


def architecture_order(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which sm_90 comes before sm_100."""
    return [(int(part) if part.isdecimal() else -1, part) for part in _NUMBERS.split(name)]


def _add_up(all_codes: Iterable[Iterable[DeviceCode]]) -> list[DeviceCode]:
    sums: dict[tuple[str, str, str], DeviceCode] = {}
    for code in chain.from_iterable(all_codes):
        key = code.kind.value, code.architecture, code.linking.value
        before = sums.get(key)
        sums[key] = (
            code
            if before is None
            else replace(
                code,
                count=before.count + code.count,
                bytes=before.bytes + code.bytes,
                compressed=before.compressed + code.compressed,
            )
        )
    return list(sums.values())


def _write_table(rows: Iterable[_Row]) -> Iterator[str]:
    """Yield the lines of a table; leave out the column for linking if it would be empty."""
    cells: list[tuple[str, ...]] = [
        _COLUMNS,
        *(
            (
                code.architecture or "?",
                code.kind.value,
                code.linking.value,
                f"{code.count:,}",
                f"{code.compressed:,}",
                containers,
                f"{code.bytes:,}",
            )
            for code, containers in rows
        ),
    ]
    words = _WORDS
    if all(row[2] == DeviceLinking.WHOLE.value for row in cells[1:]):
        cells = [row[:2] + row[3:] for row in cells]
        words -= 1
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        spelled = (
            cell.ljust(width) if place < words else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield f"  {'  '.join(spelled)}".rstrip()


# The contents of device code: toolkits, and the drivers that can run it.


def write_insides(package: Package, details: DeviceDetails) -> Iterator[str]:
    """Yield a few lines for each library with device code."""
    systems = [claim.system for claim in package.claims.systems]
    for item in details.objects:
        yield ""
        yield f"inside the device code of {package.layout.shorten(item.path)}:"
        for toolkit, targets, count in _group(item.cubins, lambda each: each.toolkit):
            made = f"CUDA {toolkit}" if toolkit else "a toolkit that is not stated"
            drivers = _name_drivers(toolkit, systems, lowest_driver) if toolkit else ""
            runs = f"; runs on {drivers}" if drivers else ""
            plural = "" if count == 1 else "s"
            yield f"  machine code of {made}: {count:,} cubin{plural} for {targets}{runs}"
        for version, targets, count in _group(item.ptx, lambda each: each.version):
            drivers = _name_drivers(version, systems, oldest_driver_of_ptx)
            compiles = f"; compiled by {drivers}" if drivers else ""
            plural = "" if count == 1 else "s"
            yield f"  PTX {version}: {count:,} text{plural} for {targets}{compiles}"
        for unread in item.unread:
            plural = "entry" if unread.count == 1 else "entries, the first"
            word = "broken" if unread.broken else "not read"
            place = f"at byte {unread.offset:#x}"
            yield f"  {word}: {unread.count:,} {plural} {place}: {unread.reason}"


def _group(
    groups: Iterable[_Group], version_of: Callable[[_Group], str]
) -> Iterator[tuple[str, str, int]]:
    """Yield each version, from old to new, with its targets and the number of pieces of code."""

    def order(each: _Group) -> tuple[int, ...]:
        return tuple(map(int, version_of(each).split("."))) if version_of(each) else ()

    for version, of_version in groupby(sorted(groups, key=order), key=version_of):
        found = list(of_version)
        names = {each.target.architecture for each in found}
        targets = ", ".join(each or "?" for each in sorted(names, key=architecture_order))
        yield version, targets, sum(each.count for each in found)


def _name_drivers(version: str, systems: Iterable[str], find: Callable[[str, str], str]) -> str:
    """Return the oldest drivers for a version; name their systems if these differ."""
    known = {system: driver for system in systems if (driver := find(version, system))}
    if len(set(known.values())) == 1:
        return f"driver {next(iter(known.values()))} and later"
    return ", ".join(f"driver {driver} and later ({system})" for system, driver in known.items())
