"""What makes a library easier to attack on Windows, or distrusted there."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.model import Finding, Kind, NotInspected, PeFile

_LOADED = (Kind.SHARED, Kind.EXECUTABLE)
_RELOCATIONS_STRIPPED = 0x1
_HIGH_ENTROPY, _DYNAMIC_BASE, _NX, _GUARD = 0x20, 0x40, 0x100, 0x4000
_32_BIT = frozenset({"i686", "armv7l"})


@check
def missing_mitigation(library: PeFile) -> Iterator[Finding]:
    """A library does not let Windows place it at random, or keep its data from being run.

    The flags DYNAMIC_BASE (ASLR), HIGH_ENTROPY_VA (the same with all of 64 bits) and NX_COMPAT
    are told in one sentence, as most often they are missing together: some linkers set none. .NET
    code alone and files of nothing but resources have no use for them.

    Why: code at an address that is known beforehand is what an attacker needs to turn a bug into
    control, whichever library has the bug; Windows on ARM loads nothing without ASLR.
    Fix: link with ``/DYNAMICBASE /HIGHENTROPYVA /NXCOMPAT``, Microsoft's defaults; give MinGW's
    ld ``--dynamicbase --high-entropy-va --nxcompat``, which many of its builds do not by
    themselves.
    """
    lacking = _find_lacking(library)
    if _runs_code(library) and lacking:
        yield (
            f"is linked without {', '.join(lacking)}: bugs of the whole process are easier to "
            "exploit; link it with a newer linker, or with these flags"
        )


def _find_lacking(library: PeFile) -> list[str]:
    flags = library.dll_characteristics
    lacking = []
    if not flags & _DYNAMIC_BASE:
        lacking.append("DYNAMIC_BASE (ASLR)")
    elif library.characteristics & _RELOCATIONS_STRIPPED:
        lacking.append("the relocations that DYNAMIC_BASE (ASLR) needs")
    if not flags & _HIGH_ENTROPY and library.architecture not in _32_BIT:
        lacking.append("HIGH_ENTROPY_VA")
    if not flags & _NX:
        lacking.append("NX_COMPAT")
    return lacking


def _runs_code(library: PeFile) -> bool:
    """Whether it has native code, as far as the headers tell."""
    if library.kind not in _LOADED or library.managed:
        return False
    return bool(library.needed or len(library.exports)) or library.kind is Kind.EXECUTABLE


@check(enabled=False)
def no_control_flow_guard(library: PeFile) -> Iterator[Finding]:
    """A library's indirect calls are not guarded.

    Off by default: four of five objects in published wheels are compiled without.

    Why: a bug that overwrites a pointer to a function can send the call anywhere.
    Fix: compile and link with ``/guard:cf``.
    """
    if _runs_code(library) and not library.dll_characteristics & _GUARD:
        yield "is linked without Control Flow Guard (GUARD_CF)"


@check
def writable_executable_section(library: PeFile) -> Iterator[Finding]:
    """A section of a library is writable and executable at once.

    Why: any bug that writes memory can write code. Packers (UPX) need it, and virus scanners
    take what is packed for malware.
    Fix: do not pack the file; look for ``#pragma section(…, execute, write)``, the linker's option
    ``/SECTION:name,EWR`` or assembler sections with such flags.
    """
    names = library.writable_executable
    if library.kind in _LOADED and names:
        yield f"has sections that are writable and executable: {', '.join(names)}"


@check
def broken_signature(library: PeFile) -> Iterator[Finding]:
    """A file was changed after it was signed.

    Only the digest in the Authenticode signature is compared; whether the certificate is to be
    trusted is not asked. Tools that edit DLLs must drop or renew the signature, as delvewheel
    does: none of 1,613 signed files in 292 published wheels has a broken one.

    Why: Windows calls the file tampered with; policies (WDAC, AppLocker) and virus scanners refuse
    it.
    Fix: sign as the last step, or remove the signature before the file is edited.
    """
    if library.signed and library.signature_matches is None:
        yield NotInspected(sentence="is signed in a way that this version cannot compare")
    elif library.signed and not library.signature_matches:
        yield "has a signature (Authenticode) for other contents: it was changed after signing"
