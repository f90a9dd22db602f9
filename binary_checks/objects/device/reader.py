"""Read files that contain only device code: ``.fatbin`` of CUDA, bundles of ROCm, and cubins.

Cubins and AMD's code objects are ELF files for a GPU. The reader of ELF files calls this module for
their target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct

from binary_checks.errors import MalformedError
from binary_checks.knowledge.device_code import EM_CUDA, read_flags
from binary_checks.model import (
    DeviceCode,
    DeviceContainers,
    DeviceFile,
    DeviceKind,
    DeviceTarget,
    Kind,
)
from binary_checks.objects.byte_source import LimitedSource
from binary_checks.objects.device.containers import (
    BUNDLE_MAGIC,
    COMPRESSED_BUNDLE_MAGIC,
    FATBIN_MAGIC,
)
from binary_checks.objects.device.sections import DeviceFacts, read_device_code
from binary_checks.objects.elf.header import EM_AMDGPU, ElfHeader, Section

_ARCHITECTURES = {
    # With version 1, since the four bytes of the magic alone are too common.
    FATBIN_MAGIC + b"\1\0": "cuda",
    BUNDLE_MAGIC: "amdgpu",
    COMPRESSED_BUNDLE_MAGIC: "amdgpu",
}

_ABI_VERSION = 8  # offset of EI_ABIVERSION in the file
_MARKING_ABI = 7  # ABI version whose flags always state the suffix ``a``
_FIRST_WITH_SUFFIX = 90  # older architectures have no suffix
_NOTE = ".note.nv.tkinfo"  # ptxas' command line
_COMPATIBILITY = ".nv.compat"  # attributes of CUDA 13
_ATTRIBUTE = Struct("<BBH")  # format, number, and a value of 2 bytes
_SIZED = 4  # EIFMT_SVAL: the value is the number of bytes that follow
_OF_ONE_GPU = 9  # EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET, in cuobjdump's terms
_FIRST_OF_FAMILY = 100  # older architectures have no suffix ``f``
_ASKED = re.compile(rb"-arch[ =]sm_(\d+[af]?)(?![0-9a-z])")


def read(path: str, source: LimitedSource) -> tuple[DeviceFile, ...]:
    """Return the only object of a file of device code."""
    head = source.read(0, min(len(BUNDLE_MAGIC), source.size))
    name = next((n for magic, n in _ARCHITECTURES.items() if head.startswith(magic)), "")
    device = read_device_code(source, [(0, source.size)])
    found = DeviceFile(
        path=path,
        kind=Kind.DEVICE,
        architecture=name,
        size=source.size,
        device_code=device.code,
        device_containers=device.containers,
        device_faults=device.faults,
    )
    return (found,)


def read_cubin(
    source: LimitedSource, header: ElfHeader, sections: tuple[Section, ...]
) -> DeviceFacts | None:
    """Return the device code in an ELF file for a GPU as facts; None for other devices."""
    if header.machine == EM_AMDGPU:
        target, reason = DeviceTarget(kind=DeviceKind.AMDGPU), "a loose code object"
    elif header.machine == EM_CUDA:
        target = read_cubin_target(source, header, sections)
        reason = "" if target.architecture else "a cubin of an unknown ABI"
    else:
        return None
    code = DeviceCode(
        kind=target.kind,
        architecture=target.architecture,
        count=1,
        bytes=source.size,
        compressed=0,
    )
    container = DeviceContainers(targets=(target,), count=1, reason=reason)
    return DeviceFacts(code=(code,), containers=(container,))


def read_cubin_target(
    source: LimitedSource, header: ElfHeader, sections: tuple[Section, ...]
) -> DeviceTarget:
    """Return the architecture of a cubin.

    Flags of ABI 7 have a bit for the suffix ``a``. Flags of ABI 8 have such a bit, too, but only
    ptxas 12.9 sets it and 13.5 does not; they have none for ``f``. The note with ptxas' command
    line decides then. Without a note, an attribute decides: it is 1 for ``a``, and 0 both for ``f``
    and for no suffix.
    """
    (version,) = source.read(_ABI_VERSION, 1)
    stated = read_flags(version, header.flags)
    if stated is None:
        return DeviceTarget(kind=DeviceKind.UNKNOWN)
    number, proven = stated.number, version == _MARKING_ABI or stated.number < _FIRST_WITH_SUFFIX
    marked = "a" if stated.is_for_one_gpu else ""
    suffix = marked if marked or proven else _read_suffix(source, sections, number)
    return DeviceTarget(kind=DeviceKind.SASS, architecture=f"sm_{number}{suffix}")


def _read_suffix(source: LimitedSource, sections: tuple[Section, ...], number: int) -> str:
    """Return the suffix passed to ptxas; "?" if it is not stated, or contradictory."""
    contents: dict[str, list[bytes]] = {_NOTE: [], _COMPATIBILITY: []}
    for section in sections:
        if section.name in contents and section.offset + section.size <= source.size:
            contents[section.name].append(source.read(section.offset, section.size))
    suffixes: set[str] = {
        text.decode() for note in contents[_NOTE] for text in _ASKED.findall(note)
    }
    if len(suffixes) == 1 and (text := suffixes.pop()).rstrip("af") == str(number):
        return text.removeprefix(str(number))
    marks: set[int | bytes] = set()
    for attributes in contents[_COMPATIBILITY]:
        with suppress(MalformedError):
            marks.update(value for key, value in iter_attributes(attributes) if key == _OF_ONE_GPU)
    if marks == {1}:
        return "a"
    return "" if marks == {0} and number < _FIRST_OF_FAMILY else "?"


def iter_attributes(section: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the attributes in a section of a cubin, each with its number or its bytes.

    Raises MalformedError if the bytes of an attribute end beyond the section.
    """
    at = 0
    while at + _ATTRIBUTE.size <= len(section):
        form, attribute, value = _ATTRIBUTE.unpack_from(section, at)
        at += _ATTRIBUTE.size
        if form != _SIZED:
            yield attribute, value
            continue
        if at + value > len(section):
            raise MalformedError(f"an attribute of {value} bytes ends beyond .nv.info", at)
        yield attribute, section[at : at + value]
        at += value
