"""Decompress code for NVIDIA's GPUs, and count the facts that it states."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple, TypeVar

from binary_checks.errors import (
    BinaryChecksError,
    BrokenDataError,
    MalformedError,
    TooLarge,
    Unavailable,
)
from binary_checks.knowledge.device_code import (
    DRIVEN,
    EM_CUDA,
    Carrier,
    PtxSize,
    choose_texts,
    has_nvidia_code,
)
from binary_checks.model import (
    ByteSource,
    CubinGroup,
    DeviceKind,
    DeviceTarget,
    ObjectDetails,
    PtxGroup,
    PtxText,
    PtxTexts,
    ReadObject,
    ToolkitSample,
    UnreadDeviceCode,
)
from binary_checks.objects.byte_source import LimitedSource
from binary_checks.objects.device.entries import DeviceEntry, NotInstalled, list_entries
from binary_checks.objects.device.reader import iter_attributes, read_cubin_target
from binary_checks.objects.elf.header import (
    MAGIC,
    SHT_NOTE,
    SHT_PROGBITS,
    ElfHeader,
    Section,
    read_header,
    read_sections,
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
# EIATTR_CUDA_API_VERSION, in cuobjdump's terms: the version of CUDA's API (135: CUDA 13.5)
_API_VERSION: Final = 0x37
_RELEASE = re.compile(rb"release (\d{1,3})\.(\d{1,3}), V\d")
_CUINFO = Struct("<HHH")  # version, virtual architecture, toolkit (118: CUDA 11.8)
_CUINFO_NOTE: Final = 1000  # type of the note in ``.note.nv.cuinfo``
# gABI chapter 5, "Note Section": bytes of the owner, bytes of the description, type
_NOTE_HEAD = Struct("<III")
_OWNER: Final = b"NVIDIA Corp\0"
_TOOLKITS: Final = range(40, 991)  # CUDA 4.0 to 99.0
_VERSIONS: Final = range(40, 200)  # values of e_version that state a toolkit in ABI 7


class Cubin(NamedTuple):
    """The facts that a cubin states about itself."""

    # "sm_90a"; "" if its ABI is unknown; ends with "?" if its suffix is not proven
    architecture: str
    toolkit: str  # "13.2"; "" if none is stated


def read_cubin(content: bytes) -> Cubin:
    """Read a cubin.

    Raises MalformedError if the content is not a cubin, or if a section lies outside of it; and
    Unavailable for a 32-bit cubin.
    """
    if not content.startswith(MAGIC):
        raise MalformedError(f"it is not a cubin: it begins with {content[:4]!r}")
    source = LimitedSource(ByteStore(content))
    header = read_header(source)
    if header.machine != EM_CUDA or header.byte_order != "<":
        raise MalformedError(f"it is an ELF file for machine {header.machine}, not for a GPU")
    if header.bits != 64:
        raise Unavailable("a cubin of 32 bits")
    rows = content[header.sections_offset : header.sections_end]
    for _, kind, _, _, offset, size, *_ in header.section_struct.iter_unpack(rows):
        if kind in _WITH_BYTES and offset + size > len(content):
            reason = f"a section of {size} bytes lies beyond the end of the cubin"
            raise MalformedError(reason, offset)
    sections = read_sections(source, header)
    target = read_cubin_target(source, header, sections)
    return Cubin(target.architecture, _read_toolkit(source, header, sections))


def _read_toolkit(source: LimitedSource, header: ElfHeader, sections: Sequence[Section]) -> str:
    """Return the toolkit, from the most reliable source in the cubin.

    NVIDIA's finalizer makes code for a later GPU from ptxas' output, and adds itself to the note of
    tools. The note that states the toolkit still names ptxas' toolkit.
    """
    notes = [source.read(each.offset, each.size) for each in sections if each.type == SHT_NOTE]
    stated = {divmod(toolkit, 10) for note in notes for toolkit in _find_toolkits(note)}
    tools = {(int(one), int(two)) for note in notes for one, two in _RELEASE.findall(note)}
    if not (stated or tools) and header.version in _VERSIONS:
        stated = {divmod(header.version, 10)}  # 118: CUDA 11.8
    if not (stated or tools):
        kernels = (s for s in sections if s.type == _SHT_CUDA_INFO and s.name != ".nv.info")
        attributes = (iter_attributes(source.read(s.offset, s.size)) for s in kernels)
        versions = {
            int.from_bytes(value, "little")
            for number, value in chain.from_iterable(attributes)
            if number == _API_VERSION and isinstance(value, bytes) and len(value) == 4
        }
        stated = {divmod(version, 10) for version in versions if version in _TOOLKITS}
    found = stated or tools
    return ".".join(map(str, max(found))) if found else ""


def _find_toolkits(note: bytes) -> Iterator[int]:
    """Yield the toolkits stated in a note of the form ``.note.nv.cuinfo``; 118 is CUDA 11.8."""
    at = 0
    while at + _NOTE_HEAD.size <= len(note):
        owner, size, kind = _NOTE_HEAD.unpack_from(note, at)
        start = at + _NOTE_HEAD.size + -(-owner // 4) * 4
        fits = start + _CUINFO.size <= len(note) and size >= _CUINFO.size
        if kind == _CUINFO_NOTE and fits and note[at + _NOTE_HEAD.size :].startswith(_OWNER):
            _, _, toolkit = _CUINFO.unpack_from(note, start)
            if toolkit in _TOOLKITS:
                yield toolkit
        at = start + -(-size // 4) * 4


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


def read_ptx(content: bytes) -> Ptx:
    """Read both directives. Raises MalformedError if one is missing."""
    beginning = content[:_BEGINNING]
    version, target = _VERSION.search(beginning), _TARGET.search(beginning)
    if version is None or target is None:
        missing = ".version" if version is None else ".target"
        raise MalformedError(f"it is not PTX: it has no readable {missing}")
    return Ptx(version[1].decode(), target[1].decode())


# The entries of an object that are decompressed: a few, spread over all entries. A build uses one
# toolkit, or two with a vendor's archive, and damage is seldom limited to one entry.

_SIZE: Final = 16  # entries of each kind in one object
_MOST_REASONS: Final = 64  # different reasons per object why code could not be read
_Key = TypeVar("_Key")
_Group = TypeVar("_Group", CubinGroup, PtxGroup, UnreadDeviceCode)


def choose_sample(entries: Sequence[DeviceEntry]) -> Iterator[DeviceEntry]:
    """Yield up to 16 entries of each kind that is read, evenly spread."""
    for kind in DRIVEN:
        own = [entry for entry in entries if entry.kind is kind]
        chosen = min(len(own), _SIZE)
        yield from (own[index * len(own) // chosen] for index in range(chosen))


def add_samples(
    found: tuple[ReadObject, ...], source: ByteSource, factor: int
) -> tuple[ReadObject, ...]:
    """Return the objects of a file; objects with code for NVIDIA's GPUs get a sample of it."""
    return tuple(
        replace(each, device_sample=read_details(each.path, source, factor))
        if isinstance(each, Carrier) and has_nvidia_code(each)
        else each
        for each in found
    )


def read_details(
    path: str, source: ByteSource, factor: int = 1, *, everything: bool = False
) -> ObjectDetails:
    """Decompress and read a sample of the device code in a file, or all of it."""
    chosen = [entry for entry in list_entries(source, factor) if entry.kind in DRIVEN]
    count = len(chosen)
    if not everything:
        chosen = sorted(choose_sample(chosen), key=lambda entry: entry.offset)
    inspected = len(chosen)
    cubins: dict[tuple[DeviceTarget, str], CubinGroup] = {}
    texts: dict[tuple[DeviceTarget, str], PtxGroup] = {}
    unread: dict[str, UnreadDeviceCode] = {}
    chosen.reverse()
    while chosen:  # parts of an entry share its unpacked bytes as long as one of the parts exists
        entry, content = chosen.pop(), b""  # the last entry's bytes are freed before the next ones
        try:
            content = entry.unpack()
            if entry.kind is DeviceKind.PTX:
                ptx = read_ptx(content)
                target = DeviceTarget(kind=DeviceKind.PTX, architecture=ptx.architecture)
                text = PtxGroup(
                    target=target, version=ptx.version, first=entry.offset, member=entry.member
                )
                count_group(texts, (target, ptx.version), text)
                continue
            stated, toolkit = read_cubin(content)
            proven = stated and not stated.endswith("?")
            architecture = stated if proven else entry.architecture or stated
            target = DeviceTarget(kind=DeviceKind.SASS, architecture=architecture)
            cubin = CubinGroup(
                target=target, toolkit=toolkit, first=entry.offset, member=entry.member
            )
            count_group(cubins, (target, toolkit), cubin)
            # The toolkit of these counts nevertheless.
            if not stated:
                raise Unavailable("a cubin of an unknown ABI")
            if entry.architecture and entry.architecture.rstrip("af?") != stated.rstrip("af?"):
                raise MalformedError(
                    f"its head says {entry.architecture}, but its cubin says {stated}"
                )
        except (BinaryChecksError, BrokenDataError) as error:
            refused = explain_unread(entry, error)
            if refused.reason not in unread and len(unread) >= _MOST_REASONS:
                refused = replace(refused, reason=f"for more than {_MOST_REASONS} reasons")
            count_group(unread, refused.reason, refused)
    return ObjectDetails(
        path=path,
        entries=count,
        inspected=inspected,
        cubins=tuple(sorted(cubins.values(), key=lambda each: (each.target, each.toolkit))),
        ptx=tuple(sorted(texts.values(), key=lambda each: (each.target, each.version))),
        unread=tuple(unread.values()),
    )


def count_group(groups: dict[_Key, _Group], key: _Key, first: _Group) -> None:
    """Add one to the group with this key; ``first`` is the group if there is none yet."""
    known = groups.get(key)
    groups[key] = replace(known, count=known.count + 1) if known else first


def explain_unread(entry: DeviceEntry, error: Exception) -> UnreadDeviceCode:
    """Return why an entry could not be read."""
    return UnreadDeviceCode(
        offset=entry.offset,
        count=1,
        reason=error.reason if isinstance(error, MalformedError) else str(error),
        broken=isinstance(error, (BrokenDataError, MalformedError)),
        too_large=isinstance(error, TooLarge),
        lacking=error.extra if isinstance(error, NotInstalled) else "",
    )


def count_toolkits(item: ObjectDetails) -> ToolkitSample:
    """Count the toolkits and the versions of PTX that an object's device code states."""
    toolkits: Counter[str] = Counter()
    ptx: Counter[str] = Counter()
    for cubins in item.cubins:
        toolkits[cubins.toolkit] += cubins.count
    for texts in item.ptx:
        ptx[texts.version] += texts.count
    seen = toolkits.total() + ptx.total()
    # A missing library comes before other reasons.
    reasons = [each.reason for each in sorted(item.unread, key=lambda each: not each.lacking)]
    return ToolkitSample(
        path=item.path,
        toolkits=tuple(toolkits.most_common()),
        ptx=tuple(ptx.most_common()),
        seen=seen,
        total=item.entries,
        unread=reasons[0] if reasons and seen < item.inspected else "",
    )


# The PTX of all objects of a package.


def read_ptx_sample(files: Iterable[tuple[str, ByteSource | Unavailable]], most: int) -> PtxTexts:
    """Decompress the PTX that ``choose_texts`` selects; of equal texts, read only one.

    The texts stay compressed, in a temporary file, until all sizes are known.
    """
    found: dict[bytes, tuple[str, DeviceEntry]] = {}
    with closing(ByteStore()) as kept:
        for path, content in files:
            for entry in () if isinstance(content, Unavailable) else list_entries(content):
                if entry.kind is DeviceKind.PTX and (digest := entry.digest()) not in found:
                    found[digest] = path, entry.keep(kept)
        different = tuple(found.values())
        sizes = [PtxSize(entry.architecture, entry.size) for _, entry in different]
        chosen = [different[place] for place in choose_texts(sizes, most)]
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
