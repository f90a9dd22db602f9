"""Names the CPUs of Mach-O headers as the rest of the model spells architectures."""

from __future__ import annotations

CPU_64_BITS = 0x01000000
_SUBTYPE = 0x00FFFFFF
"""Of cpusubtype: the rest are capabilities, such as the version of arm64e's pointers."""

_NAMES = {
    0x00000007: "i686",
    0x01000007: "x86_64",
    0x0000000C: "armv7l",
    0x0100000C: "aarch64",
    0x0200000C: "arm64_32",
    0x00000012: "ppc",
    0x01000012: "ppc64",
}
_SPECIAL = {
    (0x01000007, 8): "x86_64h",  # Haswell and newer: other machines do not load it
    (0x0100000C, 2): "arm64e",  # Python is no arm64e process and does not load it
}


def architecture_of(cpu_type: int, cpu_subtype: int) -> str:
    """The architecture's name; ``cpu 0x…`` for one that has none here."""
    special = _SPECIAL.get((cpu_type, cpu_subtype & _SUBTYPE))
    return special or _NAMES.get(cpu_type, f"cpu {cpu_type:#x}")
