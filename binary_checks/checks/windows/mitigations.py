"""What makes a library easier to attack on Windows, or untrusted there."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.model import Finding, Kind, Level, NotInspected, PeFile, Problem

_LOADED = (Kind.SHARED, Kind.EXECUTABLE)
_RELOCATIONS_STRIPPED = 0x1
_HIGH_ENTROPY, _DYNAMIC_BASE, _NX, _GUARD = 0x20, 0x40, 0x100, 0x4000
_ARM = frozenset({"aarch64", "arm64ec", "arm64x", "armv7l"})
_32_BIT = frozenset({"i686", "armv7l"})


@check
def missing_mitigation(library: PeFile) -> Iterator[Finding]:
    """A library does not let Windows randomise its address, or prevent its data from executing.

    The flags DYNAMIC_BASE (ASLR), HIGH_ENTROPY_VA (64-bit ASLR) and NX_COMPAT are reported in one
    sentence, as they are mostly missing together: some linkers set none. Pure .NET code and
    resource-only files do not need them.

    Why: with code at a known address, an attacker can turn a bug in any library of the process into
    control of it; Windows on ARM loads nothing without ASLR.
    Fix: link with ``/DYNAMICBASE /HIGHENTROPYVA /NXCOMPAT``, Microsoft's defaults; pass MinGW's ld
    ``--dynamicbase --high-entropy-va --nxcompat``, which many of its builds do not set by default.
    Level: on Windows for ARM nothing loads a library without ASLR. Otherwise it is a warning: the
    library works, and many DLLs of third parties are linked so.
    """
    lacking = _find_lacking(library)
    if not _runs_code(library) or not lacking:
        return
    if _is_refused(library):
        effect = "Windows on ARM does not load it"
    else:
        effect = "bugs in the whole process are easier to exploit"
    sentence = f"is linked without {', '.join(lacking)}: {effect}; link it with a newer linker, "
    level = Level.ERROR if _is_refused(library) else Level.WARNING
    yield Problem(path=library.path, sentence=f"{sentence}or with these flags", level=level)


def _is_refused(library: PeFile) -> bool:
    """Whether Windows demands ASLR of it, as of all code for ARM, and it has none."""
    movable = library.dll_characteristics & _DYNAMIC_BASE
    stripped = library.characteristics & _RELOCATIONS_STRIPPED
    return library.architecture in _ARM and (not movable or bool(stripped))


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


@check(enabled=False, level=Level.WARNING)
def no_control_flow_guard(library: PeFile) -> Iterator[Finding]:
    """A library's indirect calls are not guarded.

    Off by default: four in five objects in published wheels are compiled without it.

    Why: a bug that overwrites a function pointer can redirect the call anywhere.
    Fix: compile and link with ``/guard:cf``.
    Level: the library works; a mitigation is missing.
    """
    if _runs_code(library) and not library.dll_characteristics & _GUARD:
        yield "is linked without Control Flow Guard (GUARD_CF)"


@check(level=Level.WARNING)
def writable_executable_section(library: PeFile) -> Iterator[Finding]:
    """A library has a section that is both writable and executable.

    Why: any bug that writes memory can write code. Packers (UPX) need it, and virus scanners
    treat packed files as malware.
    Fix: do not pack the file; look for ``#pragma section(…, execute, write)``, the linker option
    ``/SECTION:name,EWR`` or assembler sections with such flags.
    Level: the library works; virus scanners may refuse it.
    """
    names = library.writable_executable
    if library.kind in _LOADED and names:
        yield f"has sections that are writable and executable: {', '.join(names)}"


@check
def broken_signature(library: PeFile) -> Iterator[Finding]:
    """A file was changed after it was signed.

    Only the digest in the Authenticode signature is compared; the certificate's trust is not
    checked. Tools that edit DLLs must remove or renew the signature, as delvewheel does: none of
    1,613 signed files in 292 published wheels has a broken one.

    Why: Windows reports the file as tampered with; policies (WDAC, AppLocker) and virus scanners
    refuse it.
    Fix: sign as the last step, or remove the signature before the file is edited.
    Level: policies and virus scanners refuse a file that looks tampered with.
    """
    if library.signed and library.signature_matches is None:
        yield NotInspected(sentence="is signed in a way that this version cannot verify")
    elif library.signed and not library.signature_matches:
        yield "does not match its Authenticode signature: it was changed after signing"
