"""The numbers of the formats are those of pyelftools, macholib and pefile."""

from __future__ import annotations

import inspect
import struct
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pefile
import pytest
from elftools.elf import constants as elf_constants
from elftools.elf import enums as elf_enums
from macholib import mach_o

from binary_checks import objects
from binary_checks.objects import LimitedSource
from binary_checks.objects.elf.header import architecture_of as elf_architecture
from binary_checks.objects.elf.header import read_header
from binary_checks.objects.macho.header import architecture_of as macho_architecture
from binary_checks.objects.pe.header import PeHeader
from binary_checks.objects.pe.header import architecture_of as pe_architecture
from tests.objects.byte_sources import Bytes


def others() -> Iterator[tuple[str, int]]:
    """Yield the constants of the three libraries."""
    tables = [vars(mach_o), vars(pefile)]
    tables += [each for each in vars(elf_enums).values() if isinstance(each, dict)]
    tables += [vars(each) for each in vars(elf_constants).values() if inspect.isclass(each)]
    tables += [each for each in vars(pefile).values() if isinstance(each, dict)]
    for table in tables:
        for name, value in table.items():
            if isinstance(name, str) and isinstance(value, int) and name.isupper():
                yield name, value


def modules() -> Iterator[ModuleType]:
    root = Path(objects.__file__).parents[1]
    for path in sorted((root / "objects").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        yield import_module(".".join(("binary_checks", *parts)))


def test_constants_have_the_values_of_other_libraries() -> None:
    theirs: dict[str, set[int]] = {}
    for name, value in others():
        theirs.setdefault(name, set()).add(value)
    ours = {
        (name.lstrip("_"), value)
        for module in modules()
        for name, value in vars(module).items()
        if isinstance(value, int) and name.lstrip("_") in theirs
    }
    assert len(ours) > 70
    wrong = {name: value for name, value in ours if value not in theirs[name]}
    assert wrong == {}


@pytest.mark.parametrize(
    ("machine", "bits", "order", "flags", "architecture"),
    [
        ("EM_SPARC", 32, ">", 0, "sparc"),
        ("EM_SPARCV9", 64, ">", 0, "sparc64"),
        ("EM_386", 32, "<", 0, "i686"),
        ("EM_X86_64", 32, "<", 0, "x32"),
        ("EM_X86_64", 64, "<", 0, "x86_64"),
        ("EM_MIPS", 32, "<", 0, "mipsel"),
        ("EM_MIPS", 32, ">", 0, "mips"),
        ("EM_MIPS", 64, "<", 0, "mips64el"),
        ("EM_MIPS", 64, ">", 0, "mips64"),
        ("EM_PPC", 32, ">", 0, "ppc"),
        ("EM_PPC64", 64, ">", 0, "ppc64"),
        ("EM_PPC64", 64, "<", 2, "ppc64le"),
        ("EM_PPC64", 64, "<", 1, "ppc64le_elfv1"),
        ("EM_S390", 32, ">", 0, "s390"),
        ("EM_S390", 64, ">", 0, "s390x"),
        ("EM_ARM", 32, ">", 0x5000400, "armv7b"),
        ("EM_ARM", 32, "<", 0x5000400, "armv7l"),  # EABI 5, hard float
        ("EM_ARM", 32, "<", 0x5000200, "armel"),  # soft float
        ("EM_IA_64", 64, "<", 0, "ia64"),
        ("EM_AARCH64", 32, "<", 0, "aarch64_ilp32"),
        ("EM_AARCH64", 64, "<", 0, "aarch64"),
        ("EM_AARCH64", 64, ">", 0, "aarch64_be"),
        ("EM_RISCV", 32, "<", 0, "riscv32"),
        ("EM_RISCV", 64, "<", 5, "riscv64"),  # compressed instructions, double float
        ("EM_RISCV", 64, "<", 1, "riscv64_lp64"),
        ("EM_RISCV", 64, "<", 3, "riscv64_lp64f"),
        ("EM_RISCV", 64, "<", 7, "riscv64_lp64q"),
        ("EM_LOONGARCH", 32, "<", 0, "loongarch32"),
        ("EM_LOONGARCH", 64, "<", 0x43, "loongarch64"),  # second object ABI, double float
        ("EM_LOONGARCH", 64, "<", 0x41, "loongarch64_lp64s"),
        ("EM_LOONGARCH", 64, "<", 0x42, "loongarch64_lp64f"),
        ("EM_XTENSA", 32, "<", 0, "xtensa"),
        ("EM_QDSP6", 32, "<", 0, "hexagon"),
        ("EM_CUDA", 64, "<", 0, "cuda"),
        ("EM_AMDGPU", 64, "<", 0, "amdgpu"),
        ("EM_BPF", 64, "<", 0, "bpf"),
    ],
)
def test_a_machine_of_elf_is_an_architecture(
    machine: str, bits: int, order: str, flags: int, architecture: str
) -> None:
    number = elf_enums.ENUM_E_MACHINE[machine]
    identification = b"\x7fELF" + bytes([bits // 32, 1 + "<>".index(order), 1]).ljust(12, b"\0")
    layout = order + ("HHIQQQI12x" if bits == 64 else "HHIIIII12x")
    content = identification + struct.pack(layout, 3, number, 1, 0, 0, 0, flags)
    assert elf_architecture(read_header(LimitedSource(Bytes(content)))) == architecture


@pytest.mark.parametrize(
    ("cpu", "subtype", "architecture"),
    [
        ("CPU_TYPE_I386", 3, "i686"),
        ("CPU_TYPE_X86_64", 3, "x86_64"),
        ("CPU_TYPE_X86_64", 8, "x86_64h"),
        ("CPU_TYPE_X86_64", 0x80000008, "x86_64h"),  # CPU_SUBTYPE_LIB64
        ("CPU_TYPE_ARM", 9, "armv7l"),
        ("CPU_TYPE_ARM64", 0, "aarch64"),
        ("CPU_TYPE_ARM64", 2, "arm64e"),
        ("CPU_TYPE_ARM64", 0x81000002, "arm64e"),  # with the ABI's version
        ("CPU_TYPE_POWERPC", 0, "ppc"),
        ("CPU_TYPE_POWERPC64", 0, "ppc64"),
    ],
)
def test_a_cpu_type_of_mach_o_is_an_architecture(cpu: str, subtype: int, architecture: str) -> None:
    names = {name.upper(): number for number, name in mach_o.CPU_TYPE_NAMES.items()}
    number = names[cpu.removeprefix("CPU_TYPE_")]
    assert macho_architecture(number, subtype) == architecture


def test_a_watch_has_pointers_of_32_bits() -> None:
    assert macho_architecture(12 | 1 << 25, 0) == "arm64_32"  # CPU_ARCH_ABI64_32


@pytest.mark.parametrize(
    ("machine", "architecture"),
    [
        ("I386", "i686"),
        ("AMD64", "x86_64"),
        ("ARM", "armel"),
        ("ARMNT", "armv7l"),
        ("ARM64", "aarch64"),
        ("IA64", "ia64"),
        ("EBC", "ebc"),
        ("RISCV32", "riscv32"),
        ("RISCV64", "riscv64"),
        ("LOONGARCH32", "loongarch32"),
        ("LOONGARCH64", "loongarch64"),
        ("SH4", "machine-0x1a6"),
    ],
)
def test_a_machine_of_pe_is_an_architecture(machine: str, architecture: str) -> None:
    number = pefile.MACHINE_TYPE[f"IMAGE_FILE_MACHINE_{machine}"]
    header = PeHeader(*(0,) * len(PeHeader._fields))._replace(machine=number)
    assert pe_architecture(header, hybrid=False) == architecture
