"""Tells what an ELF file is for: a library, a program, code of a device, or none of these."""

from __future__ import annotations

from typing import Final

from binary_checks.knowledge.device_containers import EM_CUDA
from binary_checks.model import Kind
from binary_checks.objects.device.reader import EM_AMDGPU
from binary_checks.objects.elf.dynamic import DF_1_PIE, DT_FLAGS_1, DT_SONAME, Dynamic
from binary_checks.objects.elf.header import (
    ET_DYN,
    ET_EXEC,
    ET_REL,
    ElfHeader,
    is_known_device,
    runs_on_a_host,
)

_EM_BPF: Final = 247
_AMDGPU_OS_ABIS: Final = range(64, 67)  # ELFOSABI_AMDGPU_HSA, _PAL, _MESA3D


def kind_of_unloaded(header: ElfHeader) -> Kind | None:
    """The kind of a file that no loader of the host takes; None for one that it may take."""
    if not runs_on_a_host(header):
        return Kind.DEVICE if _is_device_code(header) else Kind.OTHER
    if header.type == ET_REL:
        return Kind.RELOCATABLE
    return None if header.type in (ET_EXEC, ET_DYN) else Kind.OTHER


def _is_device_code(header: ElfHeader) -> bool:
    """Whether it looks as the tools of its device write it; a wrong e_machine makes no such file.

    Cubins and BPF programs are never shared objects; AMD's code objects are, with an ABI of their
    own. Libraries for Hexagon and the like (Qualcomm's ``libQnnHtpV73Skel.so``) look as any other.
    """
    if header.machine in (EM_CUDA, _EM_BPF):
        return header.type != ET_DYN
    if header.machine == EM_AMDGPU:
        return header.type != ET_DYN or header.identification[7] in _AMDGPU_OS_ABIS
    return is_known_device(header)


def kind_of_loaded(header: ElfHeader, dynamic: Dynamic, interpreter: str) -> Kind:
    """Position-independent executables are ET_DYN too, and some libraries can be run.

    libQt6Core.so.6 and glibc's own libc.so.6 have a PT_INTERP; a DT_SONAME tells them apart.
    """
    if not may_be_opened(header, dynamic) or (interpreter and DT_SONAME not in dynamic):
        return Kind.EXECUTABLE
    return Kind.SHARED


def may_be_opened(header: ElfHeader, dynamic: Dynamic) -> bool:
    """Whether dlopen takes a file of its kind, which is refused for programs."""
    return header.type != ET_EXEC and not dynamic.value(DT_FLAGS_1) & DF_1_PIE
