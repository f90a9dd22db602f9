"""Device code for NVIDIA's GPUs in a package's objects: samples of it, all of it, and its PTX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from contextlib import closing
from dataclasses import replace

from binary_checks.declaring import gathers
from binary_checks.errors import BinaryChecksError, BrokenDataError, NotApplicable, Unavailable
from binary_checks.gather.member_contents import MemberContents
from binary_checks.knowledge.device_code import (
    Carrier,
    PtxSize,
    choose_texts,
    find_nvidia_carriers,
)
from binary_checks.model import (
    ByteSource,
    DeviceCodeRequest,
    DeviceDetails,
    DeviceKind,
    DeviceToolkits,
    ObjectDetails,
    Package,
    PtxRequest,
    PtxText,
    PtxTexts,
    ToolkitSample,
    UnreadDeviceCode,
)
from binary_checks.objects.device.details import (
    count_group,
    explain_unread,
    read_details,
    read_ptx,
)
from binary_checks.objects.device.entries import DeviceEntry, list_entries
from binary_checks.profile import Profile
from binary_checks.trees.kept_bytes import ByteStore


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
    samples: list[ToolkitSample] = []
    for item in details.objects:
        toolkits: Counter[str] = Counter()
        ptx: Counter[str] = Counter()
        for cubins in item.cubins:
            toolkits[cubins.toolkit] += cubins.count
        for texts in item.ptx:
            ptx[texts.version] += texts.count
        seen = toolkits.total() + ptx.total()
        # A missing library comes before other reasons.
        reasons = [each.reason for each in sorted(item.unread, key=lambda each: not each.lacking)]
        samples.append(
            ToolkitSample(
                path=item.path,
                toolkits=tuple(toolkits.most_common()),
                ptx=tuple(ptx.most_common()),
                seen=seen,
                total=item.entries,
                unread=reasons[0] if reasons and seen < max(item.inspected, 1) else "",
            )
        )
    return DeviceToolkits(samples=tuple(samples))


@gathers(PtxTexts)
def sample_ptx(package: Package, contents: MemberContents, request: PtxRequest) -> PtxTexts:
    """Decompress the PTX that ``choose_texts`` selects; of equal texts, read only one.

    The texts stay compressed, in a temporary file, until all sizes are known. Raises NotApplicable
    if there is no PTX, PackageError if the package cannot be opened again, GatherError if the disk
    is full.
    """
    paths = {
        item.path
        for item in package.objects
        if isinstance(item, Carrier)
        and any(code.kind is DeviceKind.PTX for code in item.device_code)
    }
    if not paths:
        raise NotApplicable("no PTX in the package")
    found: dict[bytes, tuple[str, DeviceEntry]] = {}
    with closing(ByteStore()) as kept:
        for path, content in _open_objects(package, contents, paths):
            for entry in () if isinstance(content, Unavailable) else list_entries(content):
                if entry.kind is DeviceKind.PTX and (digest := entry.digest()) not in found:
                    found[digest] = path, entry.keep(kept)
        different = tuple(found.values())
        sizes = [PtxSize(entry.architecture, entry.size) for _, entry in different]
        chosen = [different[place] for place in choose_texts(sizes, request.bytes)]
        texts: list[PtxText] = []
        unread: dict[tuple[str, str], UnreadDeviceCode] = {}
        for path, entry in chosen:
            try:
                text = entry.unpack().rstrip(b"\0")
                version, architecture = read_ptx(text)
            except (BinaryChecksError, BrokenDataError) as error:
                refused = explain_unread(entry, error)
                count_group(unread, (path, refused.reason), refused)
                continue
            texts.append(
                PtxText(
                    path=path,
                    offset=entry.offset,
                    architecture=architecture,
                    version=version,
                    content=text,
                    member=entry.member,
                )
            )
    return PtxTexts(
        texts=tuple(texts),
        found=len(sizes),
        size=sum(each.size for each in sizes),
        unread=tuple((path, each) for (path, _), each in unread.items()),
    )
