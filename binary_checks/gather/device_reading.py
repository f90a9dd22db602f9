"""Device code for NVIDIA's GPUs in a package's objects: samples of it, all of it, and its PTX."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

from binary_checks.declaring import gathers
from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.gather.member_contents import MemberContents
from binary_checks.knowledge.device_code import Carrier, find_nvidia_carriers
from binary_checks.model import (
    ByteSource,
    DeviceCodeRequest,
    DeviceDetails,
    DeviceKind,
    DeviceToolkits,
    ObjectDetails,
    Package,
    PtxRequest,
    PtxTexts,
    UnreadDeviceCode,
)
from binary_checks.objects.device.details import count_toolkits, read_details, read_ptx_sample
from binary_checks.profile import Profile


@gathers(DeviceDetails)
def read_device_details(
    package: Package, contents: MemberContents, profile: Profile, request: DeviceCodeRequest
) -> DeviceDetails:
    """Return the objects' samples of device code, or read all of it if that is requested.

    Objects from a document have no samples, so their samples are read now. Raises PackageError if
    the package cannot be opened again, GatherError if the disk is full.
    """
    carriers = tuple(find_nvidia_carriers(package))
    samples = tuple(
        replace(item.device_sample, path=item.path)
        for item in carriers
        if item.device_sample is not None
    )
    if len(samples) == len(carriers) and not request.thorough:
        return DeviceDetails(objects=samples)
    factor = profile.limit_factor
    found: dict[str, ObjectDetails] = {}
    for path, content in _open_objects(package, contents, {item.path for item in carriers}):
        if isinstance(content, Unavailable):
            unread = UnreadDeviceCode(offset=0, count=1, reason=str(content))
            found[path] = ObjectDetails(path=path, unread=(unread,))
        else:
            found[path] = read_details(path, content, factor, everything=request.thorough)
    return DeviceDetails(objects=tuple(found[item.path] for item in carriers))


def _open_objects(
    package: Package, contents: MemberContents, paths: Set[str]
) -> Iterator[tuple[str, ByteSource | Unavailable]]:
    """Yield the bytes of objects, in any order; read each before the next one is requested."""
    wanted = {member.path: member for member in package.members if member.path in paths}
    yield from ((path, Unavailable("it no longer exists")) for path in paths if path not in wanted)
    for member, content in contents.sources(wanted.values()):
        yield member.path, content


@gathers(DeviceToolkits)
def find_toolkits(details: DeviceDetails) -> DeviceToolkits:
    """Count the toolkits and the versions of PTX that each object's device code states."""
    return DeviceToolkits(samples=tuple(map(count_toolkits, details.objects)))


@gathers(PtxTexts)
def sample_ptx(package: Package, contents: MemberContents, request: PtxRequest) -> PtxTexts:
    """Decompress a sample of the package's PTX.

    Raises NotApplicable if there is no PTX, PackageError if the package cannot be opened again,
    GatherError if the disk is full.
    """
    paths = {
        item.path
        for item in package.objects
        if isinstance(item, Carrier)
        and any(code.kind is DeviceKind.PTX for code in item.device_code)
    }
    if not paths:
        raise NotApplicable("no PTX in the package")
    return read_ptx_sample(_open_objects(package, contents, paths), request.bytes)
