"""Properties of objects that make a process safer, and signatures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from binary_checks.declaring import difference
from binary_checks.knowledge.tags import is_loaded
from binary_checks.model import Change, ElfFile, MachOFile, PeFile, Severity

# IMAGE_DLLCHARACTERISTICS_*, PE Format, "DLL Characteristics".
_PE_FLAGS = {
    0x0020: "HIGH_ENTROPY_VA",
    0x0040: "DYNAMIC_BASE (ASLR)",
    0x0080: "FORCE_INTEGRITY",
    0x0100: "NX_COMPAT (DEP)",
    0x4000: "GUARD_CF",
}
_LARGE_PAGES = {"aarch64": 0x10000, "ppc64le": 0x10000, "ppc64": 0x10000, "loongarch64": 0x4000}


_RELRO = "RELRO"
_NOW = "immediate binding (full RELRO)"
_NO_TEXTREL = "code without relocations (DT_TEXTREL)"
_NO_RWX = "segments that are either writable or executable"
_PIE = "position independence (PIE)"
_PROTECTIONS = (_RELRO, _NOW, _NO_TEXTREL, _NO_RWX, _PIE, "IBT", "SHSTK", "BTI", "PAC", "GCS")


@difference
def elf_hardening(old: ElfFile, new: ElfFile) -> Iterator[Change]:
    """Protections of an ELF object: RELRO, a stack without code, PIE, CET, BTI.

    A new executable stack is a break: glibc 2.41 and later refuse the object.
    """
    if not (is_loaded(old) and is_loaded(new)):
        return
    if new.executable_stack and not old.executable_stack:
        phrase = "for an executable stack now: glibc 2.41 and later refuse it"
        yield Change(severity=Severity.BREAK, sentence=f"asks {phrase}", together=f"ask {phrase}")
    largest = _LARGE_PAGES.get(new.architecture, 0)
    if 0 < new.alignment < largest <= old.alignment:
        phrase = f"segments aligned to {new.alignment:#x}, previously {old.alignment:#x}"
        rest = f"{phrase}: kernels with larger pages refuse it"
        yield Change(severity=Severity.BREAK, sentence=f"has {rest}", together=f"have {rest}")
    yield from _compare(_protections(old), _protections(new), _PROTECTIONS)


def _compare(before: set[str], after: set[str], known: Iterable[str]) -> Iterator[Change]:
    """Yield one change for all lost protections, and one for all gained protections."""
    if lost := [name for name in known if name in before - after]:
        yield Change(severity=Severity.CHANGE, sentence=f"lost {', '.join(lost)}")
    if gained := [name for name in known if name in after - before]:
        yield Change(severity=Severity.INFO, sentence=f"gained {', '.join(gained)}")


def _protections(item: ElfFile) -> set[str]:
    found = {
        _RELRO: item.relro,
        _NOW: item.bind_now,
        _NO_TEXTREL: not item.text_relocations,
        _NO_RWX: not item.writable_executable,
        _PIE: not item.fixed_address,
    }
    return {name for name, has in found.items() if has}.union(item.guards)


@difference
def pe_hardening(old: PeFile, new: PeFile) -> Iterator[Change]:
    """Protections of a PE image: ASLR, DEP, Control Flow Guard."""
    if not (is_loaded(old) and is_loaded(new)):
        return
    before, after = (
        {name for flag, name in _PE_FLAGS.items() if each.dll_characteristics & flag}
        for each in (old, new)
    )
    yield from _compare(before, after, _PE_FLAGS.values())


@difference
def code_signatures(old: MachOFile, new: MachOFile) -> Iterator[Change]:
    """Signatures of Mach-O objects, without which macOS kills a process on Apple silicon."""
    if old.signed and not new.signed:
        severity = Severity.BREAK if new.architecture == "aarch64" else Severity.CHANGE
        yield Change(
            severity=severity,
            sentence="lost its code signature",
            together="lost their code signatures",
        )
    elif new.signed and not old.signed:
        phrase = "a code signature now"
        yield Change(severity=Severity.INFO, sentence=f"has {phrase}", together=f"have {phrase}")
    if new.signature_faults and not old.signature_faults:
        phrase = f"a code signature that does not fit: {new.signature_faults[0]}"
        yield Change(severity=Severity.BREAK, sentence=f"has {phrase}", together=f"have {phrase}")


@difference
def authenticode(old: PeFile, new: PeFile) -> Iterator[Change]:
    """Authenticode signatures of PE images."""
    if old.signed and not new.signed:
        yield Change(
            severity=Severity.CHANGE,
            sentence="lost its Authenticode signature",
            together="lost their Authenticode signatures",
        )
    elif new.signed and not old.signed:
        phrase = "an Authenticode signature now"
        yield Change(severity=Severity.INFO, sentence=f"has {phrase}", together=f"have {phrase}")
    if old.signature_matches and new.signature_matches is False:
        phrase = "an Authenticode signature that does not match its bytes"
        yield Change(severity=Severity.BREAK, sentence=f"has {phrase}", together=f"have {phrase}")
