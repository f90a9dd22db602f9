"""The architectures of PE images, spelled as those of other formats are."""

from __future__ import annotations

from binary_checks.objects.pe.header import PeHeader

_ARCHITECTURES = {
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


def architecture_of(header: PeHeader, *, hybrid: bool) -> str:
    """The one spelling of the image's architecture; "machine-<number>" where there is none.

    ``hybrid`` is whether the load configuration points to metadata of compiled hybrid code: the
    header of ARM64EC says x86_64, whose processes on Arm it is for; ARM64X is for both.
    """
    known = _ARCHITECTURES.get(header.machine, f"machine-{header.machine:#x}")
    return _HYBRIDS.get(known, known) if hybrid else known
