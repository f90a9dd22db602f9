"""Takes what the objects of a package say of their code for NVIDIA's GPUs."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import BinaryIO

from binary_checks.declaring import gathers
from binary_checks.errors import (
    BrokenDataError,
    GatherError,
    MalformedError,
    PackageError,
    Unavailable,
)
from binary_checks.gather.member_contents import find_entry
from binary_checks.knowledge.device_code import Carrier, find_nvidia_carriers
from binary_checks.model import Package
from binary_checks.model.device import (
    DeviceDetails,
    DeviceToolkits,
    ObjectDetails,
    ToolkitSample,
    UnreadDeviceCode,
)
from binary_checks.model.protocols import ByteSource, Source, Tree, TreeEntry
from binary_checks.model.requests import DeviceCodeRequest
from binary_checks.objects.byte_source import DeviceAllowance
from binary_checks.objects.device.details import read_details
from binary_checks.profile.reading import Profile

# Opens a package once more for the code for NVIDIA's GPUs in its objects.


def reread(
    package: Package,
    carriers: Iterable[Carrier],
    open_tree: Callable[[], Tree],
    limit_factor: int = 1,
    *,
    everything: bool,
) -> tuple[ObjectDetails, ...]:
    """Decompress a sample of the code of these objects, or all of it, in their order.

    ``limit_factor`` times as much is read as usual. Raises PackageError where the package cannot
    be opened again, GatherError where there is no room.
    """
    paths = [item.path for item in carriers]
    allowance = DeviceAllowance(limit_factor)
    found: dict[str, ObjectDetails] = {}
    for path, content in open_objects(package, paths, open_tree):
        if isinstance(content, Unavailable):
            unread = UnreadDeviceCode(offset=0, count=1, reason=str(content))
            found[path] = ObjectDetails(path=path, unread=(unread,))
        else:
            found[path] = read_details(path, content, allowance, everything=everything)
    return tuple(found[path] for path in paths)


def open_objects(
    package: Package, paths: Iterable[str], open_tree: Callable[[], Tree]
) -> Iterator[tuple[str, ByteSource | Unavailable]]:
    """Open the package's tree for the bytes of some objects, each to be read before the next.

    They come in any order. One after the other is copied to one file, which is removed in the end.
    Raises PackageError where the package cannot be opened again, GatherError where there is no
    room.
    """
    try:
        with (
            tempfile.TemporaryFile(prefix="binary_checks-") as copy,
            closing(open_tree()) as tree,
        ):
            yield from _open_all(package, tree, set(paths), copy)
    except OSError as error:
        reason = f"its device code cannot be read once more: {error.strerror or error}"
        raise GatherError(f"{package.file_name}: {reason}") from None


def _open_all(
    package: Package, tree: Tree, paths: set[str], copy: BinaryIO
) -> Iterator[tuple[str, ByteSource | Unavailable]]:
    waiting: dict[int, tuple[str, TreeEntry]] = {}
    for member in package.members:
        if member.path in paths and (entry := find_entry(tree, member, package.layout)) is not None:
            paths.remove(member.path)
            waiting[id(entry)] = member.path, entry
    yield from ((path, Unavailable("it is not there any more")) for path in sorted(paths))
    reason = "it is not there any more"
    try:
        for entry, pieces in tree.contents([entry for _, entry in waiting.values()]):
            path, _ = waiting.pop(id(entry))
            yield path, _copy(pieces, copy)
    except PackageError as error:
        reason = f"it cannot be read again: {error}"
    yield from ((path, Unavailable(reason)) for path, _ in waiting.values())


def _copy(pieces: Iterator[bytes], copy: BinaryIO) -> ByteSource | Unavailable:
    copy.seek(0)
    copy.truncate()
    try:
        copy.writelines(pieces)
    except (BrokenDataError, PackageError) as error:
        return Unavailable(f"it cannot be read again: {error}")
    return _CopiedBytes(copy)


class _CopiedBytes:
    """The bytes of the file as a ByteSource."""

    def __init__(self, copy: BinaryIO) -> None:
        self._copy = copy
        self.size = copy.seek(0, os.SEEK_END)

    def read(self, offset: int, length: int) -> bytes:
        """Exactly length bytes from offset; raises MalformedError when the file ends before."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise MalformedError("the file ends before", self.size)
        self._copy.seek(offset)
        return self._copy.read(length)


# Takes what the objects of a package say of their code for NVIDIA's GPUs.


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
    from binary_checks.gather.device_reading import reread  # for few runs

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
