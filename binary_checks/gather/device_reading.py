"""Says what lies inside a package's code for NVIDIA's GPUs: of a sample, or of everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from binary_checks.declaring import gathers
from binary_checks.errors import Unavailable
from binary_checks.gather.device_members import open_carriers
from binary_checks.knowledge.device_containers import find_carriers, has_nvidia_code
from binary_checks.model import Package
from binary_checks.model.device import (
    DeviceDetails,
    DeviceToolkits,
    ObjectDetails,
    ToolkitSample,
    UnreadDeviceCode,
)
from binary_checks.model.protocols import ByteSource, Source, Tree
from binary_checks.model.requests import DeviceCodeRequest
from binary_checks.objects.device.details import read_details
from binary_checks.objects.limits import DeviceAllowance
from binary_checks.profile.reading import Profile


@gathers(DeviceDetails)
def read_device_details(
    package: Package, source: Source, profile: Profile, request: DeviceCodeRequest
) -> DeviceDetails:
    """Find what is in a sample of the code for NVIDIA's GPUs, or in all where that is asked for."""
    if next(find_carriers(package), None) is None:
        return DeviceDetails()
    everything = request.thorough
    found = read_objects(package, source.open, profile.limit_factor, everything=everything)
    return DeviceDetails(objects=found)


@gathers(DeviceToolkits)
def find_toolkits(details: DeviceDetails) -> DeviceToolkits:
    """Count the toolkits that this code states."""
    return DeviceToolkits(samples=tuple(count_toolkits(details.objects)))


def read_objects(
    package: Package,
    open_tree: Callable[[], Tree],
    limit_factor: int = 1,
    *,
    everything: bool,
) -> tuple[ObjectDetails, ...]:
    """Return the details of each object with such code.

    A sample was taken when the package was read, unless its objects come from a document; for
    everything the package is opened once more. ``limit_factor`` times as much is read as usual.
    Raises PackageError where the package cannot be opened again, GatherError where there is no
    room.
    """
    carriers = {item.path: item for item in find_carriers(package) if has_nvidia_code(item)}
    found = {
        path: replace(item.device_sample, path=path)
        for path, item in carriers.items()
        if item.device_sample is not None and not everything
    }
    unread = [item for path, item in carriers.items() if path not in found]
    if unread:
        allowance = DeviceAllowance(limit_factor)
        for item, source in open_carriers(package, unread, open_tree):
            found[item.path] = _read(item.path, source, allowance, everything=everything)
    return tuple(found[path] for path in carriers)


def _read(
    path: str, source: ByteSource | Unavailable, allowance: DeviceAllowance, *, everything: bool
) -> ObjectDetails:
    if isinstance(source, Unavailable):
        unread = UnreadDeviceCode(offset=0, count=1, reason=str(source))
        return ObjectDetails(path=path, unread=(unread,))
    return read_details(path, source, allowance, everything=everything)


def count_toolkits(objects: Iterable[ObjectDetails]) -> Iterator[ToolkitSample]:
    """Count the toolkits and the versions of PTX that the code of each object states."""
    for item in objects:
        toolkits: Counter[str] = Counter()
        ptx: Counter[str] = Counter()
        for cubins in item.cubins:
            toolkits[cubins.toolkit] += cubins.count
        for texts in item.ptx:
            ptx[texts.version] += texts.count
        seen = toolkits.total() + ptx.total()
        yield ToolkitSample(
            path=item.path,
            toolkits=tuple(toolkits.most_common()),
            ptx=tuple(ptx.most_common()),
            seen=seen,
            total=item.entries,
            unread=_explain(item) if seen < max(item.inspected, 1) else "",
        )


def _explain(item: ObjectDetails) -> str:
    """Why some code could not be read; what is not installed is said rather than anything else."""
    lacking = [each for each in item.unread if each.lacking]
    return next((each.reason for each in (*lacking, *item.unread)), "")
