"""Reads files that are nothing but device code: ``.fatbin`` of CUDA, bundles of ROCm, and cubins.

A cubin, as AMD's code objects, is an ELF file for a GPU, of which the reader of ELF files asks here
for its one target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct
from typing import Final

from binary_checks.knowledge.device_containers import EM_CUDA, read_flags
from binary_checks.model import (
    DeviceCode,
    DeviceContainers,
    DeviceFile,
    DeviceKind,
    DeviceTarget,
    Kind,
)
from binary_checks.model.protocols import Observations, Plan
from binary_checks.objects.byte_source import LimitedSource
from binary_checks.objects.device.containers import (
    BUNDLE_MAGIC,
    COMPRESSED_BUNDLE_MAGIC,
    FATBIN_MAGIC,
    NEAR,
)
from binary_checks.objects.device.scanner import DeviceScanner
from binary_checks.objects.device.sections import DeviceFacts, read_device_code
from binary_checks.objects.elf.header import ElfHeader, Section

_ARCHITECTURES = {
    FATBIN_MAGIC + b"\1\0": "cuda",  # with its version: four bytes alone may be anything
    BUNDLE_MAGIC: "amdgpu",
    COMPRESSED_BUNDLE_MAGIC: "amdgpu",
}

EM_AMDGPU: Final = 224
_ABI_VERSION = 8  # its offset in the file
_MARKING_ABI = 7  # whose flags always have the suffix ``a``
_FIRST_WITH_SUFFIX = 90  # no older architecture has variants
_NOTE = ".note.nv.tkinfo"  # how ptxas was called
_COMPATIBILITY = ".nv.compat"  # attributes of CUDA 13: format, number, and a value of 2 bytes
_ATTRIBUTE = Struct("<BBH")
_SIZED = 4  # the format of an attribute whose value is the size of what follows
_OF_ONE_GPU = 9  # cuobjdump: EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET
_FIRST_OF_FAMILY = 100  # no older architecture has the suffix f
_LONGEST_NOTE = 1 << 16
_ASKED = re.compile(rb"-arch[ =]sm_(\d+[af]?)(?![0-9a-z])")


def plan(_head: bytes, size: int, _factor: int) -> Plan:
    """Keep the start: where the other heads lie is known once they have been seen."""
    return Plan(ranges=((0, min(size, NEAR)),), scanners=(DeviceScanner([(0, size)], size),))


def read(path: str, source: LimitedSource, _observations: Observations) -> tuple[DeviceFile, ...]:
    """The one object of such a file."""
    head = source.read(0, min(NEAR, source.size))
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
    """The facts about device code of an ELF file for a GPU; None for another device."""
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
    """The architecture of a cubin.

    The flags of ABI 7 have a bit for the suffix ``a``. Those of ABI 8 have one that ptxas 12.9 sets
    and 13.5 does not, and none for ``f``: then the note that says how ptxas was called is proof,
    and without it an attribute that is 1 for ``a``, 0 for ``f`` and for none.
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
    """What ptxas was told, "?" where that is not there, not of one mind, or too long to be read."""
    told: set[bytes] = set()
    for note in _read_all(source, sections, _NOTE):
        told.update(_ASKED.findall(note) if note else (b"?",))
    if len(told) == 1 and (text := told.pop().decode()).rstrip("af") == str(number):
        return text.removeprefix(str(number))
    marks = {mark for each in _read_all(source, sections, _COMPATIBILITY) for mark in _marks(each)}
    if marks == {1}:
        return "a"
    return "" if marks == {0} and number < _FIRST_OF_FAMILY else "?"


def _read_all(source: LimitedSource, sections: tuple[Section, ...], name: str) -> Iterator[bytes]:
    """The contents of the sections of that name; b"" of one that is too long to be read."""
    for section in sections:
        if section.name == name and section.offset + section.size <= source.size:
            short = section.size <= _LONGEST_NOTE
            yield source.read(section.offset, section.size) if short else b""


def _marks(attributes: bytes) -> Iterator[int]:
    """Whether the code is for one GPU alone: the values of that attribute."""
    at = 0
    while at + _ATTRIBUTE.size <= len(attributes):
        form, number, value = _ATTRIBUTE.unpack_from(attributes, at)
        if number == _OF_ONE_GPU and form != _SIZED:
            yield value
        at += _ATTRIBUTE.size + (value if form == _SIZED else 0)
