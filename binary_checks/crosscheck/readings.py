"""What the readings of all libraries have in common: their form, and our spelling of machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Reading = dict[str, Any]
"""By name a text, a number, a truth or a list of texts; or a silence."""
Numbers = tuple[int, ...]
"""Of a version."""


def silence(reason: str) -> dict[str, str]:
    """What stands in place of a fact that a library cannot know of this file."""
    return {"silent": reason}


ISA_LEVELS = ((8, "x86-64-v4"), (4, "x86-64-v3"), (2, "x86-64-v2"))

ELF_MACHINES = {
    ("SPARC", 32, ">"): "sparc",
    ("386", 32, "<"): "i686",
    ("MIPS", 32, "<"): "mipsel",
    ("MIPS", 32, ">"): "mips",
    ("MIPS", 64, "<"): "mips64el",
    ("MIPS", 64, ">"): "mips64",
    ("PPC", 32, ">"): "ppc",
    ("PPC64", 64, "<"): "ppc64le",
    ("PPC64", 64, ">"): "ppc64",
    ("S390", 32, ">"): "s390",
    ("S390", 64, ">"): "s390x",
    ("ARM", 32, "<"): "armv7l",
    ("ARM", 32, ">"): "armv7b",
    ("SPARCV9", 64, ">"): "sparc64",
    ("IA_64", 64, "<"): "ia64",
    ("X86_64", 32, "<"): "x32",
    ("X86_64", 64, "<"): "x86_64",
    ("AARCH64", 32, "<"): "aarch64_ilp32",
    ("AARCH64", 64, "<"): "aarch64",
    ("AARCH64", 64, ">"): "aarch64_be",
    ("RISCV", 32, "<"): "riscv32",
    ("RISCV", 64, "<"): "riscv64",
    ("LOONGARCH", 32, "<"): "loongarch32",
    ("LOONGARCH", 64, "<"): "loongarch64",
    # Devices, whatever their class and byte order
    ("XTENSA", 0, ""): "xtensa",
    ("QDSP6", 0, ""): "hexagon",
    ("HEXAGON", 0, ""): "hexagon",
    ("CUDA", 0, ""): "cuda",
    ("AMDGPU", 0, ""): "amdgpu",
    ("BPF", 0, ""): "bpf",
    ("VE", 0, ""): "ve",
}
"""By the name of e_machine without ``EM_``, class and byte order, what the model calls it."""


MACHO_CPUS = {
    ("X86", 3): "i686",
    ("X86_64", 3): "x86_64",
    ("X86_64", 8): "x86_64h",
    ("ARM64", 0): "aarch64",
    ("ARM64", 2): "arm64e",
    ("POWERPC", 0): "ppc",
    ("POWERPC64", 0): "ppc64",
}
"""By the CPU's name and the subtype without its capabilities, what the model calls it."""
PLATFORMS = (
    *("macos", "ios", "tvos", "watchos", "bridgeos", "maccatalyst"),
    *("iossimulator", "tvossimulator", "watchossimulator", "driverkit"),
    *("visionos", "visionossimulator"),
)
"""Of LC_BUILD_VERSION, from 1 on."""
MACHO_TYPES = {1: "OBJECT", 2: "EXECUTE", 6: "DYLIB", 8: "BUNDLE", 10: "DSYM"}


def spell_cpu(name: str, subtype: int) -> str:
    """What the model calls a CPU."""
    return MACHO_CPUS.get((name, subtype & 0xFFFFFF), f"unknown: {name} {subtype:#x}")


def name_platform(number: int) -> str:
    """What the model calls a platform of LC_BUILD_VERSION."""
    known = 0 < number <= len(PLATFORMS)
    return PLATFORMS[number - 1] if known else f"platform {number}"


def sum_up_systems(found: Sequence[tuple[str, Numbers, Numbers]]) -> Reading:
    """The platforms with their oldest systems and SDKs: the facts are those of macOS, or the first.

    A zippered dylib is for macOS and Mac Catalyst alike, with a command for each.
    """
    nowhere: tuple[str, Numbers, Numbers] = ("", (), ())
    _, oldest, sdk = next((row for row in found if row[0] == "macos"), (*found, nowhere)[0])
    return {
        "platforms": [platform for platform, _, _ in found],
        "minimum_os": _spell_system(oldest),
        "sdk": _spell_system(sdk) if any(sdk) else "",
    }


def _spell_system(version: Numbers) -> str:
    """A version of macOS as the model has it: 11.0 and 10.13.4."""
    *others, patch = version or (0,)
    return ".".join(map(str, [*others, patch] if patch else others))


def take_apart(version: int) -> Numbers:
    """The three numbers that Mach-O puts into 32 bits."""
    return version >> 16, version >> 8 & 255, version & 255


PE_MACHINES = {
    0x014C: "i686",
    0x01C0: "armel",
    0x01C4: "armv7l",
    0x0200: "ia64",
    0x0EBC: "ebc",
    0x5032: "riscv32",
    0x5064: "riscv64",
    0x6232: "loongarch32",
    0x6264: "loongarch64",
    0x8664: "x86_64",
    0xAA64: "aarch64",
}
_HYBRIDS = {"x86_64": "arm64ec", "aarch64": "arm64x"}


def spell_machine(number: int, *, hybrid: bool) -> str:
    """What the model calls the machine of a PE image."""
    known = PE_MACHINES.get(number, f"machine-{number:#x}")
    return _HYBRIDS.get(known, known) if hybrid else known


class UnparsedError(Exception):
    """The library gives no object for the file."""


def unparsed() -> UnparsedError:
    """What to raise where a library answers with nothing."""
    return UnparsedError("it does not parse the file")


def text(name: str | bytes | None) -> str:
    """The text of a name; bytes that are not UTF-8 stay visible as escapes, as in our own."""
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name or ""


def unique(names: Iterable[str]) -> list[str]:
    """Each name once, in the order in which they come."""
    return list(dict.fromkeys(names))


def number(value: Any) -> int:
    """The number of LIEF's enumerations, which leaves one without a name a number."""
    return int(getattr(value, "value", value))
