"""Decompress code for NVIDIA's GPUs in one object, and count the facts that it states."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from struct import Struct
from typing import Final, NamedTuple

from binary_checks.errors import (
    BinaryChecksError,
    BrokenDataError,
    MalformedError,
    NotInstalled,
    TooLarge,
    Unavailable,
)
from binary_checks.knowledge.device_code import EM_CUDA, Carrier, has_nvidia_code
from binary_checks.model import (
    ByteSource,
    CubinGroup,
    DeviceKind,
    DeviceTarget,
    ObjectDetails,
    PtxGroup,
    ReadObject,
    UnreadDeviceCode,
)
from binary_checks.objects.byte_source import DeviceAllowance, LimitedSource
from binary_checks.objects.device.containers import Rest
from binary_checks.objects.device.entries import DeviceEntry, list_entries
from binary_checks.objects.device.reader import read_cubin_target
from binary_checks.objects.elf.header import (
    SHT_NOBITS,
    SHT_NOTE,
    SHT_PROGBITS,
    ElfHeader,
    Section,
    read_header,
)
from binary_checks.trees.kept_bytes import ByteStore

# A cubin's architecture, and the toolkit that made it.
#
# A cubin is an ELF file for a GPU. NVIDIA documents neither its notes nor the attributes in
# ``.nv.info``. The layouts come from files that ptxas writes, compared with cuobjdump's output.
# Only bytes of sections that the headers name are read.

_SHT_SYMTAB: Final = 2
_SHT_STRTAB: Final = 3
_SHT_CUDA_INFO: Final = 0x70000000  # type of ``.nv.info`` and of each kernel's ``.nv.info.*``
_WITH_BYTES: Final = (SHT_PROGBITS, _SHT_SYMTAB, _SHT_STRTAB, SHT_NOTE, _SHT_CUDA_INFO)
_ATTRIBUTE = Struct("<BBH")  # format, attribute, and a value or the number of bytes that follow
# Names as in cuobjdump's output: the format of an attribute that is followed by bytes, and the
# attribute with the version of CUDA's API (135: CUDA 13.5).
_SIZED: Final = 4  # EIFMT_SVAL
_API_VERSION: Final = 0x37  # EIATTR_CUDA_API_VERSION
_RELEASE = re.compile(rb"release (\d{1,3}\.\d{1,3}), V\d")
_CUINFO = Struct("<HHH")  # version, virtual architecture, toolkit (118: CUDA 11.8)
_CUINFO_NOTE: Final = 1000  # type of the note in ``.note.nv.cuinfo``
# gABI chapter 5, "Note Section": bytes of the owner, bytes of the description, type
_NOTE = Struct("<III")
_OWNER: Final = b"NVIDIA Corp\0"
_LONGEST_NOTE: Final = 1 << 16  # bytes of a section with notes
_MOST_NOTES: Final = 64  # real cubins have two
_MOST_OF_CUBIN: Final = 64 << 20  # bytes of tables and attributes in one cubin
_STRINGS: Final = 8  # cost divisor for tables of names, which are only searched for NULs
_OLDEST, _NEWEST = 40, 199  # values of e_version that state a toolkit in ABI 7: 118 is CUDA 11.8


class Cubin(NamedTuple):
    """The facts that a cubin states about itself."""

    # "sm_90a"; "" if its ABI is unknown; ends with "?" if its suffix is not proven
    architecture: str
    toolkit: str  # "13.2"; "" if none is stated


class _Row(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


def read_cubin(
    content: bytes, count: Callable[[int], None] | None = None, factor: int = 1
) -> Cubin:
    """Read a cubin; ``count`` is called with the number of bytes before they are read.

    Raises MalformedError if the content is not a cubin, or if a section lies outside of it;
    TooLarge; and Unavailable for a 32-bit cubin.
    """
    source = LimitedSource(ByteStore(content), factor)
    header = _read_head(content, source)
    table = _Table(content, header, count, source.limit(_MOST_OF_CUBIN))
    target = read_cubin_target(source, header, tuple(table.notes()))
    return Cubin(target.architecture, _read_toolkit(header, table))


def _read_head(content: bytes, source: LimitedSource) -> ElfHeader:
    if not content.startswith(b"\x7fELF"):
        raise MalformedError(f"it is not a cubin: it begins with {content[:4]!r}")
    header = read_header(source)
    if header.machine != EM_CUDA or header.byte_order != "<":
        raise MalformedError(f"it is an ELF file for machine {header.machine}, not for a GPU", 18)
    if header.bits != 64:
        raise Unavailable("a cubin of 32 bits")
    return header


def _beyond(offset: int, size: int) -> MalformedError:
    reason = f"a section of {size} bytes lies beyond the end of the cubin"
    return MalformedError(reason, offset)


class _Table:
    """The sections of a cubin."""

    def __init__(
        self, content: bytes, header: ElfHeader, count: Callable[[int], None] | None, most: int
    ) -> None:
        self._content, self._count, self._most = content, count, most
        self._taken = 0  # bytes of sections read so far
        rows = content[header.sections_offset : header.sections_end]
        self._take(len(rows), len(rows))
        self.rows = [_Row._make(row) for row in header.section_struct.iter_unpack(rows)]
        for row in self.rows:
            if row.offset + row.size > len(content) and row.type in _WITH_BYTES:
                raise _beyond(row.offset, row.size)
        names = self.rows[header.names_index] if header.names_index < len(self.rows) else None
        self._names = b"" if names is None else self.read(names)

    def read(self, row: _Row) -> bytes:
        """Return the bytes of a section. Raises MalformedError if it ends outside the cubin."""
        if row.type == SHT_NOBITS:
            return b""
        if row.offset + row.size > len(self._content):
            raise _beyond(row.offset, row.size)
        self._take(row.size, row.size // _STRINGS if row.type == _SHT_STRTAB else row.size)
        return self._content[row.offset : row.offset + row.size]

    def _take(self, size: int, gone_through: int) -> None:
        self._taken += size
        if self._taken > self._most:
            what = "section names, notes and attributes"
            raise TooLarge(f"a cubin with more than {self._most} bytes of {what}")
        if self._count is not None:
            self._count(gone_through)

    def is_named(self, row: _Row, beginning: bytes) -> bool:
        """Return whether the name of a section begins with ``beginning``."""
        return self._names.startswith(beginning, row.name)

    def notes(self) -> Iterator[Section]:
        """Yield the notes and attributes that prove a suffix, as sections of the ELF reader."""
        rows = self.rows
        notes = [r for r in rows if r.type == SHT_NOTE or self.is_named(r, b".nv.compat\0")]
        if len(notes) > _MOST_NOTES:
            raise TooLarge(f"a cubin with {len(notes)} notes; at most {_MOST_NOTES} are read")
        for row in notes:
            end = self._names.find(b"\0", row.name, row.name + 64)
            name = self._names[row.name : max(end, row.name)].decode("latin-1")
            yield Section(name, row.type, row.flags, row.address, row.offset, row.size)


def _read_toolkit(header: ElfHeader, table: _Table) -> str:
    """Return the toolkit, from the most reliable source in the cubin.

    NVIDIA's finalizer makes code for a later GPU from ptxas' output, and adds itself to the note of
    tools. The note that states the toolkit still names ptxas' toolkit.
    """
    stated: set[tuple[int, ...]] = set()
    tools: set[tuple[int, ...]] = set()
    for row in table.rows:
        if row.type == SHT_NOTE:
            if row.size > _LONGEST_NOTE:
                raise TooLarge(f"a note of {row.size} bytes; at most {_LONGEST_NOTE} are read")
            note = table.read(row)
            stated.update(_find_toolkits(note))
            tools.update(tuple(map(int, each.split(b"."))) for each in _RELEASE.findall(note))
    if not (stated or tools) and _OLDEST <= header.version <= _NEWEST:
        stated = {divmod(header.version, 10)}  # 118: CUDA 11.8
    found = stated or tools or set(_find_api_versions(table))
    return ".".join(map(str, max(found))) if found else ""


def _find_toolkits(note: bytes) -> Iterator[tuple[int, int]]:
    """Yield the toolkits stated in a note of the form ``.note.nv.cuinfo``."""
    at = 0
    while at + _NOTE.size <= len(note):
        owner, size, kind = _NOTE.unpack_from(note, at)
        start = at + _NOTE.size + -(-owner // 4) * 4
        fits = start + _CUINFO.size <= len(note) and size >= _CUINFO.size
        if kind == _CUINFO_NOTE and fits and note[at + _NOTE.size :].startswith(_OWNER):
            _, _, toolkit = _CUINFO.unpack_from(note, start)
            if _OLDEST <= toolkit <= 10 * 99:  # CUDA 4.0 to 99.0
                yield divmod(toolkit, 10)
        at = start + -(-size // 4) * 4


def _find_api_versions(table: _Table) -> Iterator[tuple[int, int]]:
    """Yield the versions of the API that kernels state."""
    for row in table.rows:
        if row.type == _SHT_CUDA_INFO and row.info:
            for attribute, value in _walk(table.read(row)):
                if attribute == _API_VERSION and len(value) == 4:
                    version = int.from_bytes(value, "little")
                    if _OLDEST <= version <= 10 * 99:  # CUDA 4.0 to 99.0
                        yield divmod(version, 10)


def _walk(section: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the attributes that are followed by bytes. Raises MalformedError."""
    at = 0
    while at + _ATTRIBUTE.size <= len(section):
        form, attribute, size = _ATTRIBUTE.unpack_from(section, at)
        at += _ATTRIBUTE.size
        if form == _SIZED:
            if at + size > len(section):
                raise MalformedError(f"an attribute of {size} bytes ends beyond .nv.info", at)
            yield attribute, section[at : at + size]
            at += size


# The two facts that a PTX text states: the version of the language, and its target (PTX ISA, "PTX
# Module Directives").

_VERSION = re.compile(rb"^[ \t]*\.version[ \t]+(\d{1,3}\.\d{1,3})(?![\d.])", re.MULTILINE)
_TARGET = re.compile(rb"^[ \t]*\.target[ \t]+(sm_\d{1,4}[af]?)(?![0-9A-Za-z_])", re.MULTILINE)
# Bytes in which both directives are searched for; licences may precede them.
_BEGINNING: Final = 1 << 20


class Ptx(NamedTuple):
    """The two directives that begin every PTX text."""

    version: str  # "8.8"
    architecture: str  # "sm_90a"


def read_ptx(content: bytes, count: Callable[[int], None] | None = None) -> Ptx:
    """Read both directives. Raises MalformedError if one is missing.

    ``count`` is called with the number of bytes that were searched.
    """
    beginning = content[:_BEGINNING]
    version, target = _VERSION.search(beginning), _TARGET.search(beginning)
    if count is not None:
        ends = (each.end() if each else len(beginning) for each in (version, target))
        count(max(ends))
    if version is None or target is None:
        missing = ".version" if version is None else ".target"
        raise MalformedError(f"it is not PTX: it has no readable {missing}")
    return Ptx(version[1].decode(), target[1].decode())


# The entries of an object that are decompressed: a few, spread over all entries. A build uses one
# toolkit, or two with a vendor's archive, and damage is seldom limited to one entry.

_SIZE: Final = 16  # entries of each kind in one object
_READ: Final = (DeviceKind.SASS, DeviceKind.PTX)


def choose_sample(entries: Sequence[DeviceEntry]) -> Iterator[DeviceEntry]:
    """Yield up to 16 entries of each kind that is read, evenly spread."""
    for kind in _READ:
        own = [entry for entry in entries if entry.kind is kind]
        chosen = min(len(own), _SIZE)
        yield from (own[index * len(own) // chosen] for index in range(chosen))


# The facts stated by all device code of an object, or by a sample of it.

_MOST_GROUPS: Final = 1024  # groups per object: a target with a toolkit or a version of PTX
_MOST_REASONS: Final = 64  # different reasons per object


def add_samples(
    found: tuple[ReadObject, ...], source: ByteSource, allowance: DeviceAllowance
) -> tuple[ReadObject, ...]:
    """Return the objects of a file; objects with code for NVIDIA's GPUs get a sample of it."""
    return tuple(
        replace(each, device_sample=read_details(each.path, source, allowance))
        if isinstance(each, Carrier) and has_nvidia_code(each)
        else each
        for each in found
    )


def read_details(
    path: str, source: ByteSource, allowance: DeviceAllowance, *, everything: bool = False
) -> ObjectDetails:
    """Decompress and read a sample of the device code in a file, or all of it."""
    reading = _Reading(path, allowance)
    entries: list[DeviceEntry] = []
    for entry in list_entries(source, allowance.factor):
        if isinstance(entry, Rest):
            reading.refuse_rest(entry)
        elif isinstance(entry, DeviceEntry) and entry.kind in _READ:
            reading.entries += 1
            if everything:
                reading.inspect(entry)
            else:
                entries.append(entry)
    chosen = sorted(choose_sample(entries), key=lambda entry: entry.offset)[::-1]
    del entries
    while chosen:  # parts of an entry share its unpacked bytes as long as one of the parts exists
        reading.inspect(chosen.pop())
    return reading.conclude()


class _Reading:
    """Reads entries of one object, and counts the facts that they state."""

    def __init__(self, path: str, allowance: DeviceAllowance) -> None:
        self._path, self._allowance = path, allowance
        self._most_groups = _MOST_GROUPS * allowance.factor
        self.entries = 0  # number of entries of the object
        self._inspected = 0
        self._cubins: dict[tuple[DeviceTarget, str], CubinGroup] = {}
        self._ptx: dict[tuple[DeviceTarget, str], PtxGroup] = {}
        self._refusals = _Refusals()

    def inspect(self, entry: DeviceEntry) -> None:
        """Decompress and read an entry; if that fails, record why."""
        self._inspected += 1
        count = self._allowance.charge_reading
        try:
            self._allowance.charge_unpacking(entry.cost())
            content = entry.unpack()
            if entry.kind is DeviceKind.PTX:
                self._add_ptx(entry, read_ptx(content, count))
            else:
                self._add_cubin(entry, read_cubin(content, count, self._allowance.factor))
        except (BinaryChecksError, BrokenDataError) as error:
            self._refusals.add(entry.offset, error)

    def refuse_rest(self, rest: Rest) -> None:
        """Record a part of the file that was not walked through."""
        self._refusals.add(rest.offset, (TooLarge if rest.too_large else Unavailable)(rest.reason))

    def conclude(self) -> ObjectDetails:
        """Return all results."""
        return ObjectDetails(
            path=self._path,
            entries=self.entries,
            inspected=self._inspected,
            cubins=tuple(
                sorted(self._cubins.values(), key=lambda each: (each.target, each.toolkit))
            ),
            ptx=tuple(sorted(self._ptx.values(), key=lambda each: (each.target, each.version))),
            unread=self._refusals.conclude(),
        )

    def _add_ptx(self, entry: DeviceEntry, ptx: Ptx) -> None:
        target = DeviceTarget(kind=DeviceKind.PTX, architecture=ptx.architecture)
        group = self._ptx.get((target, ptx.version))
        if group is None and len(self._ptx) >= self._most_groups:
            raise TooLarge(f"PTX of more than {self._most_groups} versions and targets")
        self._ptx[target, ptx.version] = (
            replace(group, count=group.count + 1)
            if group
            else PtxGroup(
                target=target, version=ptx.version, first=entry.offset, member=entry.member
            )
        )

    def _add_cubin(self, entry: DeviceEntry, cubin: Cubin) -> None:
        try:
            _compare_architectures(entry, cubin.architecture)
        except (MalformedError, Unavailable) as error:  # the toolkit counts nevertheless
            self._refusals.add(entry.offset, error)
        proven = cubin.architecture and not cubin.architecture.endswith("?")
        architecture = cubin.architecture if proven else entry.architecture or cubin.architecture
        target = DeviceTarget(kind=DeviceKind.SASS, architecture=architecture)
        group = self._cubins.get((target, cubin.toolkit))
        if group is None and len(self._cubins) >= self._most_groups:
            raise TooLarge(f"cubins of more than {self._most_groups} toolkits and targets")
        self._cubins[target, cubin.toolkit] = (
            replace(group, count=group.count + 1)
            if group
            else CubinGroup(
                target=target, toolkit=cubin.toolkit, first=entry.offset, member=entry.member
            )
        )


def _compare_architectures(entry: DeviceEntry, stated: str) -> None:
    """Compare the architecture in an entry's head with its cubin's, without suffixes.

    Raises MalformedError if they differ, Unavailable if the cubin's is unknown.
    """
    if not stated:
        raise Unavailable("a cubin of an unknown ABI")
    if entry.architecture and entry.architecture.rstrip("af?") != stated.rstrip("af?"):
        raise MalformedError(f"its head says {entry.architecture}, but its cubin says {stated}")


class _Refusals:
    """Counts the reasons why entries of one object could not be read, up to a limit."""

    def __init__(self) -> None:
        self._groups: dict[str, UnreadDeviceCode] = {}

    def add(self, offset: int, error: Exception) -> None:
        """Record an entry, or a part of the file, that could not be read."""
        reason = error.reason if isinstance(error, MalformedError) else str(error)
        if reason not in self._groups and len(self._groups) >= _MOST_REASONS:
            reason = f"for more than {_MOST_REASONS} reasons"
        group = self._groups.get(reason)
        self._groups[reason] = (
            replace(group, count=group.count + 1)
            if group
            else UnreadDeviceCode(
                offset=offset,
                count=1,
                reason=reason,
                broken=isinstance(error, (BrokenDataError, MalformedError)),
                too_large=isinstance(error, TooLarge),
                lacking=error.extra if isinstance(error, NotInstalled) else "",
            )
        )

    def conclude(self) -> tuple[UnreadDeviceCode, ...]:
        """Return each reason only once, in the order of first entries."""
        return tuple(self._groups.values())
