"""Takes what the objects of a package say of their code for NVIDIA's GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from binary_checks.declaring import gathers
from binary_checks.knowledge.device_containers import find_nvidia_carriers
from binary_checks.model import Package
from binary_checks.model.device import (
    DeviceDetails,
    DeviceToolkits,
    ObjectDetails,
    ToolkitSample,
)
from binary_checks.model.protocols import Source
from binary_checks.model.requests import DeviceCodeRequest
from binary_checks.profile.reading import Profile


@gathers(DeviceDetails)
def read_device_details(
    package: Package, source: Source, profile: Profile, request: DeviceCodeRequest
) -> DeviceDetails:
    """Take the samples that the objects have, or read everything where that is asked for.

    Objects out of a document have no samples: they are taken now. Raises PackageError where the
    package cannot be opened again, GatherError where there is no room.
    """
    carriers = tuple(find_nvidia_carriers(package))
    samples = tuple(
        replace(item.device_sample, path=item.path)
        for item in carriers
        if item.device_sample is not None
    )
    if len(samples) == len(carriers) and not (carriers and request.thorough):
        return DeviceDetails(objects=samples)
    from binary_checks.gather.device_rereading import reread  # for few runs

    factor, everything = profile.limit_factor, request.thorough
    return DeviceDetails(
        objects=reread(package, carriers, source.open, factor, everything=everything)
    )


@gathers(DeviceToolkits)
def find_toolkits(details: DeviceDetails) -> DeviceToolkits:
    """Count the toolkits that this code states."""
    return DeviceToolkits(samples=tuple(count_toolkits(details.objects)))


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
