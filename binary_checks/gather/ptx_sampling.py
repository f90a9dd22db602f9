"""Reads a sample of the PTX in a package's objects, chosen before anything is decompressed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from binary_checks.errors import BinaryChecksError, BrokenDataError, NotInstalled, Unavailable
from binary_checks.gather.device_members import allow_package, open_carriers
from binary_checks.knowledge.device_containers import Carrier
from binary_checks.knowledge.ptx_targets import PtxSize, choose_texts
from binary_checks.model import DeviceKind, ObjectFile, Package
from binary_checks.model.device import UnreadDeviceCode
from binary_checks.model.probes import PtxText, PtxTexts
from binary_checks.model.protocols import ByteSource, Tree
from binary_checks.objects.device.entries import Allowance, DeviceEntry
from binary_checks.objects.device.ptx import read_ptx
from binary_checks.objects.device_listing import list_entries


def read_sample(package: Package, open_tree: Callable[[], Tree], most: int) -> PtxTexts:
    """Read as much PTX as ``choose_texts`` takes; of equal texts one.

    The objects are gone through twice: for the sizes, and for what was chosen of them. Raises
    PackageError where the package cannot be opened again, GatherError where there is no room.
    """
    package = replace(package, objects=tuple(filter(has_ptx, package.objects)))
    sizes: dict[bytes, PtxSize] = {}
    for _, entry in _find_ptx(package, open_tree):
        sizes.setdefault(entry.digest(), PtxSize(entry.architecture, entry.size))
    chosen = choose_texts(tuple(sizes.values()), most)
    wanted = set(map(tuple(sizes).__getitem__, chosen))
    texts: list[PtxText] = []
    unread: dict[tuple[str, str], UnreadDeviceCode] = {}
    allowance = allow_package()
    for path, entry in _find_ptx(package, open_tree) if wanted else ():
        if (digest := entry.digest()) not in wanted:
            continue
        wanted.discard(digest)
        try:
            texts.append(_read(path, entry, allowance))
        except (BinaryChecksError, BrokenDataError) as error:
            known = unread.setdefault((path, str(error)), _refuse(entry, error))
            unread[path, str(error)] = replace(known, count=known.count + 1)
    return PtxTexts(
        texts=tuple(texts),
        found=len(sizes),
        size=sum(each.size for each in sizes.values()),
        unread=tuple((path, each) for (path, _), each in unread.items()),
    )


def has_ptx(item: ObjectFile) -> bool:
    """Whether an object has PTX."""
    return isinstance(item, Carrier) and any(
        code.kind is DeviceKind.PTX for code in item.device_code
    )


def _find_ptx(package: Package, open_tree: Callable[[], Tree]) -> Iterator[tuple[str, DeviceEntry]]:
    for item, source in open_carriers(package, open_tree):
        if not isinstance(source, Unavailable):
            yield from ((item.path, entry) for entry in _list(source))


def _list(source: ByteSource) -> Iterator[DeviceEntry]:
    for entry in list_entries(source):
        if isinstance(entry, DeviceEntry) and entry.kind is DeviceKind.PTX:
            yield entry


def _read(path: str, entry: DeviceEntry, allowance: Allowance) -> PtxText:
    content = allowance.unpack(entry).rstrip(b"\0")
    ptx = read_ptx(content, allowance.go_through)
    return PtxText(
        path=path,
        offset=entry.offset,
        architecture=ptx.architecture,
        version=ptx.version,
        content=content,
        member=entry.member,
    )


def _refuse(entry: DeviceEntry, error: Exception) -> UnreadDeviceCode:
    return UnreadDeviceCode(
        offset=entry.offset,
        count=0,
        reason=str(error),
        broken=isinstance(error, BrokenDataError),
        lacking=error.extra if isinstance(error, NotInstalled) else "",
    )
