"""Tables of a package's device code by architecture, a library each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from binary_checks.model import (
    DeviceCode,
    DeviceContainers,
    DeviceFile,
    DeviceLinking,
    DeviceTarget,
    ElfFile,
    ObjectFile,
    Package,
    PeFile,
    StaticArchive,
)

_WithDeviceCode = ElfFile | PeFile | StaticArchive | DeviceFile
_HEADINGS = ("architecture", "kind", "linking", "entries", "compressed", "containers", "bytes")
_WORDS = 3  # columns of words, before those of numbers
_RELOCATABLE = (DeviceLinking.RELINKABLE, DeviceLinking.UNUSABLE)
_NUMBERS = re.compile(r"(\d+)")


class _Row(NamedTuple):
    """A line of a table: what there is for one target."""

    code: DeviceCode
    containers: str  # how many have it, of how many


def write_gpu_code(package: Package) -> Iterator[str]:
    """A table for each library with device code, and what is doubtful or damaged in it."""
    carriers = [item for item in package.objects if isinstance(item, _WithDeviceCode)]
    yield from _write_tables([item for item in carriers if item.device_code], package)
    for item in carriers:
        path = package.layout.shorten(item.path)
        for group in item.device_containers:
            if group.reason:
                yield f"device code in doubt: {path}: {_name(group)}: {group.reason}"
        for fault in item.device_faults:
            yield f"damaged device code: {path}: at byte {fault.offset:#x}: {fault.reason}"


def list_architectures(package: Package) -> Iterator[str]:
    """The targets that there is device code for, by kind: "sass sm_70, sm_90"."""
    carriers = (item for item in package.objects if isinstance(item, _WithDeviceCode))
    by_kind: dict[str, dict[str, None]] = {}
    for code in sorted((code for item in carriers for code in item.device_code), key=_natural):
        unusable = "unusable " if code.linking is DeviceLinking.UNUSABLE else ""
        by_kind.setdefault(unusable + code.kind.value, {})[code.architecture or "?"] = None
    yield from (f"{kind} {', '.join(names)}" for kind, names in by_kind.items())


def _write_tables(carriers: list[_WithDeviceCode], package: Package) -> Iterator[str]:
    """A table for each library, the largest first, and one for all where there are several."""
    for item in sorted(carriers, key=lambda item: (-_bytes_of(item.device_code), item.path)):
        yield ""
        yield _title(package.layout.shorten(item.path), item.device_code, item.size)
        yield from _write_table(_rows(item.device_code, item.device_containers))
    if len(carriers) > 1:
        codes = _add_up(item.device_code for item in carriers)
        containers = [group for item in carriers for group in item.device_containers]
        inflated = sum(item.size for item in _each_file(package.objects))
        yield ""
        yield _title(f"all {len(carriers)} together", codes, inflated)
        yield from _write_table(_rows(codes, containers))


def _name(group: DeviceContainers) -> str:
    if not group.count:
        return f"all from byte {group.offset:#x} on"
    plural = "" if group.count == 1 else "s, the first"
    return f"{group.count} container{plural} at byte {group.offset:#x}"


def _title(what: str, codes: Iterable[DeviceCode], whole: int) -> str:
    size = _bytes_of(codes)
    share = f" ({size / whole:.0%} of {whole:,})" if whole else ""
    return f"device code of {what}: {size:,} bytes{share}"


def _each_file(objects: Iterable[ObjectFile]) -> Iterable[ObjectFile]:
    """One object of each file: slices of a fat one would count it twice."""
    return {item.path: item for item in objects}.values()


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
        yield _Row(code, f"{having[target, sort]}/{total[sort]}")


def _sort_of(linking: DeviceLinking) -> str:
    """Of what containers a row counts: one container may have code of use and of none."""
    return "relocatable" if linking in _RELOCATABLE else linking.value


def _natural(code: DeviceCode) -> tuple[str, list[tuple[int, str]], str]:
    """So that sm_90 stands before sm_100."""
    return code.kind.value, architecture_order(code.architecture), code.linking.value


def architecture_order(name: str) -> list[tuple[int, str]]:
    """A key by which sm_90 stands before sm_100."""
    return [(int(part) if part.isdecimal() else -1, part) for part in _NUMBERS.split(name)]


def _add_up(all_codes: Iterable[Iterable[DeviceCode]]) -> list[DeviceCode]:
    sums: dict[tuple[str, str, str], DeviceCode] = {}
    for codes in all_codes:
        for code in codes:
            key = code.kind.value, code.architecture, code.linking.value
            before = sums.get(key)
            sums[key] = code if before is None else _add(before, code)
    return list(sums.values())


def _add(one: DeviceCode, other: DeviceCode) -> DeviceCode:
    return replace(
        one,
        count=one.count + other.count,
        bytes=one.bytes + other.bytes,
        compressed=one.compressed + other.compressed,
    )


def _write_table(rows: Iterable[_Row]) -> Iterator[str]:
    """The lines of a table, without a column on linking where all code is whole."""
    cells: list[tuple[str, ...]] = [
        _HEADINGS,
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
    yield from write_table(cells, left=range(words))


def write_table(rows: Iterable[tuple[str, ...]], left: Container[int]) -> Iterator[str]:
    """Rows in columns as wide as their widest cell; those of ``left`` are set to the left."""
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        spelled = (
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield f"  {'  '.join(spelled)}".rstrip()
