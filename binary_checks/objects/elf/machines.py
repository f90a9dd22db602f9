"""The architectures of ELF files, spelled as platform tags spell them."""

from __future__ import annotations

from binary_checks.objects.elf.header import ElfHeader

_ARCHITECTURES = {
    (2, 32, ">"): "sparc",
    (3, 32, "<"): "i686",
    (8, 32, "<"): "mipsel",
    (8, 32, ">"): "mips",
    (8, 64, "<"): "mips64el",
    (8, 64, ">"): "mips64",
    (20, 32, ">"): "ppc",
    (21, 64, "<"): "ppc64le",
    (21, 64, ">"): "ppc64",
    (22, 32, ">"): "s390",
    (22, 64, ">"): "s390x",
    (40, 32, "<"): "armv7l",
    (40, 32, ">"): "armv7b",
    (43, 64, ">"): "sparc64",
    (50, 64, "<"): "ia64",
    (62, 32, "<"): "x32",
    (62, 64, "<"): "x86_64",
    (183, 32, "<"): "aarch64_ilp32",
    (183, 64, "<"): "aarch64",
    (183, 64, ">"): "aarch64_be",
    (243, 32, "<"): "riscv32",
    (243, 64, "<"): "riscv64",
    (258, 32, "<"): "loongarch32",
    (258, 64, "<"): "loongarch64",
}
_DEVICES = {
    94: "xtensa",
    164: "hexagon",
    190: "cuda",
    224: "amdgpu",
    247: "bpf",
    251: "ve",
}
_EM_ARM = 40
_EF_ARM_ABI_FLOAT_SOFT = 0x200

# What glibc assumes of a file without PT_GNU_STACK (DEFAULT_STACK_PERMS of its stackinfo.h; the
# kernel agrees on these). aarch64, ppc64, ppc64le, riscv and loongarch assume the opposite.
_EXECUTABLE_STACK_BY_DEFAULT = frozenset(
    {"x86_64", "x32", "i686", "armv7l", "armv7b", "armel", "ppc", "s390", "s390x"}
    | {"mips", "mipsel", "mips64", "mips64el", "sparc", "sparc64"}
)


def architecture_of(header: ElfHeader) -> str:
    """The one spelling of the file's architecture; "machine-<e_machine>" where there is none."""
    machine = header.machine
    if machine == _EM_ARM and header.flags & _EF_ARM_ABI_FLOAT_SOFT:
        return "armel"  # another calling convention than what tags call armv7l
    known = _ARCHITECTURES.get((machine, header.bits, header.byte_order))
    return known or _DEVICES.get(machine) or f"machine-{machine}"


def runs_on_a_host(header: ElfHeader) -> bool:
    """Whether a CPU that platform tags know runs it; all else is code for some device."""
    return (header.machine, header.bits, header.byte_order) in _ARCHITECTURES


def is_known_device(header: ElfHeader) -> bool:
    """Whether it is for a device whose files are known to lie in packages."""
    return header.machine in _DEVICES


def assumes_executable_stack(architecture: str) -> bool:
    """Whether a file without PT_GNU_STACK gets an executable stack."""
    return architecture in _EXECUTABLE_STACK_BY_DEFAULT
