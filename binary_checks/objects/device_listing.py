"""Lists all code for NVIDIA's GPUs in a file of any format, to be unpacked piece by piece."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.knowledge.device_containers import EM_CUDA
from binary_checks.model import DeviceFault
from binary_checks.model.protocols import ByteSource
from binary_checks.objects import archives
from binary_checks.objects.device.containers import FATBIN_MAGIC, Rest
from binary_checks.objects.device.entries import DeviceEntry, find_entries, whole_file
from binary_checks.objects.device.sections import SECTIONS, SHORT_SECTIONS, Extent
from binary_checks.objects.elf import header as elf_header
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.pe import header as pe_header


def list_entries(
    content: ByteSource, factor: int = 1
) -> Iterator[DeviceEntry | Rest | DeviceFault]:
    """Every entry of every container, and a loose cubin as one; what is wrong is among them.

    ``factor`` times as much of the file is read as usual.

    Nothing is yielded for a file that has no such code, and for one that cannot be read: that is
    said of it as an object.
    """
    source = LimitedSource(content, factor)
    try:
        head = source.read(0, min(64, source.size))
        if head.startswith(elf_header.MAGIC):
            yield from _list_elf(source)
        elif head.startswith(b"MZ"):
            header = pe_header.read_header(source, pe_header.find_signature(source))
            sections = pe_header.read_sections(source, header)
            yield from find_entries(source, pe_header.find_extents(sections, SHORT_SECTIONS))
        elif head.startswith(archives.MAGIC):
            for member, extents in archives.find_device_code(source):
                yield from find_entries(source, extents, member)
        elif head.startswith(FATBIN_MAGIC):
            yield from find_entries(source, [(0, source.size)])
    except (MalformedError, Unavailable):
        return


def _list_elf(source: LimitedSource) -> Iterator[DeviceEntry | Rest | DeviceFault]:
    header = elf_header.read_header(source)
    if header.machine == EM_CUDA:
        yield whole_file(source)
        return
    sections = elf_header.read_sections(source, header)
    extents: tuple[Extent, ...] = elf_header.find_extents(sections, SECTIONS)
    yield from find_entries(source, extents)
