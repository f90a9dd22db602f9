"""Says what lies inside a package's device code: toolkits, and the drivers that run it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from binary_checks.knowledge.cuda import lowest_driver, oldest_driver_of_ptx
from binary_checks.model import Package
from binary_checks.model.device import (
    CubinGroup,
    DeviceDetails,
    ObjectDetails,
    PtxGroup,
)
from binary_checks.reports.summary.gpu_tables import architecture_order


def write_insides(package: Package, details: DeviceDetails) -> Iterator[str]:
    """A few lines for each library with device code."""
    systems = [claim.system for claim in package.claims.systems]
    for item in details.objects:
        yield ""
        yield f"inside the device code of {package.layout.shorten(item.path)}:"
        yield from _say_cubins(item.cubins, systems)
        yield from _say_ptx(item.ptx, systems)
        yield from _say_unread(item)


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
