"""Says what lies inside a package's device code: toolkits, drivers that run it, and its kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from binary_checks.knowledge.cuda_drivers import lowest_driver, oldest_driver_of_ptx
from binary_checks.model import Package
from binary_checks.model.device_details import (
    CubinGroup,
    DeviceDetails,
    DeviceKernel,
    ObjectDetails,
    PtxGroup,
)
from binary_checks.reports.summary.gpu_tables import architecture_order, write_table

_MOST_KERNELS = 12  # of a library, in its table
_LONGEST_NAME = 58  # letters, so that the table has 120 columns
_HEADINGS = ("architecture", "registers", "stack", "spilled", "shared", "bytes", "kernel")


def write_insides(package: Package, details: DeviceDetails) -> Iterator[str]:
    """A few lines for each library with device code, and a table of its most demanding kernels."""
    systems = [claim.system for claim in package.claims.systems]
    for item in details.objects:
        yield ""
        yield f"inside the device code of {package.layout.shorten(item.path)}:"
        yield from _say_cubins(item.cubins, systems)
        yield from _say_ptx(item.ptx, systems)
        yield from _say_unread(item)
        yield from _say_kernels(item.kernels)


def _say_cubins(groups: Iterable[CubinGroup], systems: Iterable[str]) -> Iterator[str]:
    ordered = sorted(groups, key=lambda each: _version_order(each.toolkit))
    for toolkit, of_toolkit in groupby(ordered, key=lambda each: each.toolkit):
        found = list(of_toolkit)
        count = sum(each.count for each in found)
        made = f"CUDA {toolkit}" if toolkit else "a toolkit that is not stated"
        things = f"{count:,} cubin{'' if count == 1 else 's'} for {_list_targets(found)}"
        yield f"  machine code of {made}: {things}{_runs(toolkit, systems)}"


def _runs(toolkit: str, systems: Iterable[str]) -> str:
    drivers = _name_drivers(
        {system: lowest_driver(toolkit, system) for system in systems if toolkit}
    )
    return f"; runs on {drivers}" if drivers else ""


def _compiles(version: str, systems: Iterable[str]) -> str:
    drivers = _name_drivers({system: oldest_driver_of_ptx(version, system) for system in systems})
    return f"; compiled by {drivers}" if drivers else ""


def _say_ptx(groups: Iterable[PtxGroup], systems: Iterable[str]) -> Iterator[str]:
    ordered = sorted(groups, key=lambda each: _version_order(each.version))
    for version, of_version in groupby(ordered, key=lambda each: each.version):
        found = list(of_version)
        count = sum(each.count for each in found)
        plural = "text" if count == 1 else "texts"
        things = f"{count:,} {plural} for {_list_targets(found)}"
        yield f"  PTX {version}: {things}{_compiles(version, systems)}"


def _name_drivers(drivers: dict[str, str]) -> str:
    """The oldest drivers, by system where they differ."""
    known = {system: driver for system, driver in drivers.items() if driver}
    if len(set(known.values())) == 1:
        return f"driver {next(iter(known.values()))} and later"
    return ", ".join(f"driver {driver} and later ({system})" for system, driver in known.items())


def _list_targets(groups: Iterable[CubinGroup | PtxGroup]) -> str:
    found = sorted({each.target.architecture for each in groups}, key=architecture_order)
    return ", ".join(each or "?" for each in found)


def _version_order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("."))) if version else ()


def _say_unread(item: ObjectDetails) -> Iterator[str]:
    for group in item.unread:
        plural = "entry" if group.count == 1 else "entries, the first"
        word = "broken" if group.broken else "not read"
        yield f"  {word}: {group.count:,} {plural} at byte {group.offset:#x}: {group.reason}"


def _say_kernels(kernels: tuple[DeviceKernel, ...]) -> Iterator[str]:
    """How many there are, and those first that need the most of a thread."""
    if not kernels:
        return
    by_name: dict[str, DeviceKernel] = {}  # where it needs most, of all architectures
    for kernel in sorted(kernels, key=_demand):
        by_name[kernel.name] = kernel
    count = sum(each.count for each in kernels)
    spilling = sum(each.count for each in kernels if each.spill_stores or each.spill_loads)
    unknown = sum(each.count for each in kernels if each.spill_stores is None)
    doubt = f"; for {unknown:,} their toolkit does not record it" if unknown else ""
    yield f"  {count:,} kernels of {len(by_name):,} names; {spilling:,} spill registers{doubt}"
    largest = sorted(by_name.values(), key=_demand, reverse=True)[:_MOST_KERNELS]
    yield from write_table([_HEADINGS, *map(_row, largest)], left=(0, 6))
    if len(by_name) > _MOST_KERNELS:
        yield f"  and {len(by_name) - _MOST_KERNELS:,} more names; --json has all"


def _demand(kernel: DeviceKernel) -> tuple[int, int, int, int, str, str]:
    spilled = (kernel.spill_stores or 0) + (kernel.spill_loads or 0)
    stack, registers = kernel.stack or 0, kernel.registers or 0
    return spilled, stack, registers, kernel.size, kernel.name, kernel.architecture


def _row(kernel: DeviceKernel) -> tuple[str, ...]:
    stores, loads = kernel.spill_stores, kernel.spill_loads
    spilled = "?" if stores is None or loads is None else f"{stores:,} + {loads:,}"
    name = kernel.name
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME // 2]}…{name[-_LONGEST_NAME // 2 :]}"
    return (
        kernel.architecture or "?",
        _number(kernel.registers),
        _number(kernel.stack),
        spilled if stores or loads or stores is None else "0",
        _number(kernel.shared),
        _number(kernel.size),
        name,
    )


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"
