"""Read format, kind and architecture of an object file when only its first bytes are available.

All other facts keep their default values, which may be wrong. For those facts, read the complete
file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.model import (
    ElfFile,
    Format,
    Kind,
    MachOFile,
    MalformedObject,
    ObjectFile,
    PeFile,
    ReadObject,
    UnreadObject,
    WasmFile,
)
from binary_checks.objects import expect, recognise, refuse
from binary_checks.objects.byte_source import FilePart, LimitedSource


class _Beginning(NamedTuple):
    """The first bytes of a file; reading beyond them is not a fault of the file."""

    head: bytes
    size: int  # of the whole file

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes that are among the first ones. Raises Unavailable for other bytes."""
        if offset + length > len(self.head):
            raise Unavailable("its headers are not all among its first bytes")
        return self.head[offset : offset + length]


def read_first_bytes(path: str, head: bytes, size: int) -> tuple[ReadObject, ...]:
    """Return the objects of a file of ``size`` bytes that begins with ``head``.

    A fat Mach-O file has one object for each slice.
    """
    found = recognise(head)
    read = _READERS.get(found or Format(""))
    if found is None or read is None:
        expected = None if found else expect(path, head)
        return (refuse(path, expected, head, size),) if expected else ()
    try:
        return tuple(read(path, LimitedSource(_Beginning(head, size))))
    except MalformedError as error:
        return (MalformedObject(path=path, format=found, offset=error.offset, reason=error.reason),)
    except Unavailable as error:
        return (UnreadObject(path=path, format=found, reason=str(error)),)


def _read_elf(path: str, source: LimitedSource) -> Iterator[ObjectFile]:
    from binary_checks.objects.elf import header as elf

    header = elf.read_header(source)
    loaded = Kind.EXECUTABLE if header.type == elf.ET_EXEC else Kind.SHARED
    kind = loaded
    if not elf.runs_on_a_host(header):
        kind = Kind.DEVICE if elf.is_device_code(header) else Kind.OTHER
    elif header.type == elf.ET_REL:
        kind = Kind.RELOCATABLE
    yield ElfFile(path=path, size=source.size, kind=kind, architecture=elf.architecture_of(header))


def _read_pe(path: str, source: LimitedSource) -> Iterator[ObjectFile]:
    """Read a PE image. ARM64EC appears as x86_64.

    Only the load configuration, which is not among the first bytes, marks an image as hybrid.
    """
    from binary_checks.objects.pe import header as pe

    signature = pe.find_signature(source)
    if not signature:
        return
    header = pe.read_header(source, signature)
    is_library = header.characteristics & pe.IMAGE_FILE_DLL
    yield PeFile(
        path=path,
        size=source.size,
        kind=Kind.SHARED if is_library else Kind.EXECUTABLE,
        architecture=pe.architecture_of(header, hybrid=False),
        managed=bool(header.directories[pe.CLR][1]),
    )


def _read_macho(path: str, source: LimitedSource) -> Iterator[ObjectFile]:
    """Read a Mach-O file. The slices of a fat file keep the default kind.

    The slices' own headers are usually beyond the first bytes.
    """
    from binary_checks.objects.macho import header as macho
    from binary_checks.objects.macho.reader import KINDS

    layout = macho.FAT.get(source.read(0, 4))
    if layout is None:
        header = macho.read_header(FilePart(source, 0, source.size))
        name = macho.architecture_of(header.cpu_type, header.cpu_subtype)
        kind = KINDS.get(header.type, Kind.OTHER)
        yield MachOFile(path=path, size=source.size, kind=kind, architecture=name)
        return
    count = int.from_bytes(source.read(4, 4), "big")
    for row in layout.iter_unpack(source.read(8, count * layout.size)):
        yield MachOFile(path=path, size=row[3], architecture=macho.architecture_of(*row[:2]))


def _read_wasm(path: str, source: LimitedSource) -> Iterator[ObjectFile]:
    """Read a WebAssembly module, which begins with its section ``dylink.0`` if it can be loaded."""
    from binary_checks.objects.wasm import header as wasm

    wasm.read_header(source)
    first = next(wasm.iter_sections(source), None)
    names = (wasm.DYLINK, wasm.LEGACY_DYLINK)
    kind = Kind.SHARED if first is not None and first.name in names else Kind.OTHER
    yield WasmFile(path=path, size=source.size, kind=kind, architecture="wasm32")


_READERS = {
    Format.ELF: _read_elf,
    Format.PE: _read_pe,
    Format.MACHO: _read_macho,
    Format.WASM: _read_wasm,
}
