"""Device code for NVIDIA's GPUs in a package's objects."""

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
from binary_checks.model import (
    ByteSource,
    DeviceCodeRequest,
    DeviceDetails,
    DeviceToolkits,
    ObjectDetails,
    Package,
    Source,
    ToolkitSample,
    Tree,
    TreeEntry,
    UnreadDeviceCode,
)
from binary_checks.objects.byte_source import DeviceAllowance
from binary_checks.objects.device.details import read_details
from binary_checks.profile import Profile

# Reading of the objects once more, for device code.


def read_again(
    package: Package,
    carriers: Iterable[Carrier],
    open_tree: Callable[[], Tree],
    limit_factor: int = 1,
    *,
    everything: bool,
) -> tuple[ObjectDetails, ...]:
    """Read a sample of the device code of these objects, or all of it, in order.

    ``limit_factor`` multiplies the usual limits. Raises PackageError if the package cannot be
    opened again, GatherError if the disk is full.
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
    """Open the package's tree, and yield the bytes of some objects, in any order.

    The caller must read each object before it requests the next one: each object is copied to the
    same temporary file, which is removed at the end. Raises PackageError if the package cannot be
    opened again, GatherError if the disk is full.
    """
    try:
        with (
            tempfile.TemporaryFile(prefix="binary_checks-") as copy,
            closing(open_tree()) as tree,
        ):
            yield from _open_all(package, tree, set(paths), copy)
    except OSError as error:
        reason = f"its device code cannot be read again: {error.strerror or error}"
        raise GatherError(f"{package.file_name}: {reason}") from None


def _open_all(
    package: Package, tree: Tree, paths: set[str], copy: BinaryIO
) -> Iterator[tuple[str, ByteSource | Unavailable]]:
    waiting: dict[int, tuple[str, TreeEntry]] = {}
    for member in package.members:
        if member.path in paths and (entry := find_entry(tree, member, package.layout)) is not None:
            paths.remove(member.path)
            waiting[id(entry)] = member.path, entry
    yield from ((path, Unavailable("it no longer exists")) for path in sorted(paths))
    reason = "it no longer exists"
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
    """The bytes of the temporary file as a ByteSource."""

    def __init__(self, copy: BinaryIO) -> None:
        self._copy = copy
        self.size = copy.seek(0, os.SEEK_END)

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes. Raises MalformedError if the file ends before."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise MalformedError("the file ends before the requested bytes", self.size)
        self._copy.seek(offset)
        return self._copy.read(length)


# The facts.


@gathers(DeviceDetails)
def read_device_details(
    package: Package, source: Source, profile: Profile, request: DeviceCodeRequest
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
    if len(samples) == len(carriers) and not (carriers and request.thorough):
        return DeviceDetails(objects=samples)
    factor, everything = profile.limit_factor, request.thorough
    return DeviceDetails(
        objects=read_again(package, carriers, source.open, factor, everything=everything)
    )


@gathers(DeviceToolkits)
def find_toolkits(details: DeviceDetails) -> DeviceToolkits:
    """Count the toolkits that the device code states."""
    return DeviceToolkits(samples=tuple(count_toolkits(details.objects)))


def count_toolkits(objects: Iterable[ObjectDetails]) -> Iterator[ToolkitSample]:
    """Count the toolkits and the versions of PTX that each object's code states."""
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
    """Return why some code could not be read; a missing library comes before other reasons."""
    lacking = [each for each in item.unread if each.lacking]
    return next((each.reason for each in (*lacking, *item.unread)), "")
