"""A sample of the PTX in a package's objects, chosen before anything is decompressed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace

from binary_checks.declaring import gathers
from binary_checks.errors import (
    BinaryChecksError,
    BrokenDataError,
    NotApplicable,
    NotInstalled,
    Unavailable,
)
from binary_checks.gather.device_reading import open_objects
from binary_checks.knowledge.device_code import Carrier, PtxSize, choose_texts
from binary_checks.model import (
    ByteSource,
    DeviceKind,
    ObjectFile,
    Package,
    PtxRequest,
    PtxText,
    PtxTexts,
    Source,
    Tree,
    UnreadDeviceCode,
)
from binary_checks.objects.byte_source import DeviceAllowance
from binary_checks.objects.device.details import read_ptx
from binary_checks.objects.device.entries import DeviceEntry, list_entries
from binary_checks.trees.kept_bytes import ByteStore


@gathers(PtxTexts)
def sample_ptx(package: Package, source: Source, request: PtxRequest) -> PtxTexts:
    """Decompress a sample of the PTX. Raises NotApplicable if there is no PTX."""
    if not any(map(has_ptx, package.objects)):
        raise NotApplicable("no PTX in the package")
    return read_sample(package, source.open, request.bytes)


def read_sample(package: Package, open_tree: Callable[[], Tree], most: int) -> PtxTexts:
    """Read the PTX that ``choose_texts`` selects; of equal texts, read only one.

    The texts stay compressed, in a temporary file, until all sizes are known. Raises PackageError
    if the package cannot be opened again, GatherError if the disk is full.
    """
    found: dict[bytes, tuple[str, DeviceEntry]] = {}
    with closing(ByteStore()) as kept:
        for path, entry in _find_ptx(package, open_tree):
            if (digest := entry.digest()) not in found:
                found[digest] = path, entry.keep(kept)
        sizes = [PtxSize(entry.architecture, entry.size) for _, entry in found.values()]
        chosen = choose_texts(sizes, most)
        texts, unread = _read_all(tuple(found.values())[place] for place in chosen)
    return PtxTexts(
        texts=texts, found=len(sizes), size=sum(each.size for each in sizes), unread=unread
    )


def has_ptx(item: ObjectFile) -> bool:
    """Return whether an object contains PTX."""
    return isinstance(item, Carrier) and any(
        code.kind is DeviceKind.PTX for code in item.device_code
    )


def _find_ptx(package: Package, open_tree: Callable[[], Tree]) -> Iterator[tuple[str, DeviceEntry]]:
    paths = [item.path for item in package.objects if has_ptx(item)]
    for path, source in open_objects(package, paths, open_tree):
        if not isinstance(source, Unavailable):
            yield from ((path, entry) for entry in _list(source))


def _list(source: ByteSource) -> Iterator[DeviceEntry]:
    for entry in list_entries(source):
        if isinstance(entry, DeviceEntry) and entry.kind is DeviceKind.PTX:
            yield entry


def _read_all(
    chosen: Iterable[tuple[str, DeviceEntry]],
) -> tuple[tuple[PtxText, ...], tuple[tuple[str, UnreadDeviceCode], ...]]:
    texts: list[PtxText] = []
    unread: dict[tuple[str, str], UnreadDeviceCode] = {}
    allowance = DeviceAllowance()
    for path, entry in chosen:
        try:
            texts.append(_read(path, entry, allowance))
        except (BinaryChecksError, BrokenDataError) as error:
            known = unread.setdefault((path, str(error)), _refuse(entry, error))
            unread[path, str(error)] = replace(known, count=known.count + 1)
    return tuple(texts), tuple((path, each) for (path, _), each in unread.items())


def _read(path: str, entry: DeviceEntry, allowance: DeviceAllowance) -> PtxText:
    allowance.charge_unpacking(entry.cost())
    content = entry.unpack().rstrip(b"\0")
    ptx = read_ptx(content, allowance.charge_reading)
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
