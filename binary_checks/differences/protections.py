"""Properties of objects that make a process safer, signatures, and the GPUs that have code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from binary_checks.declaring import difference
from binary_checks.differences.changes import describe
from binary_checks.knowledge.device_code import Carrier, judged_containers, runs_on
from binary_checks.knowledge.tags import is_loaded
from binary_checks.model import (
    Change,
    DeviceFile,
    DeviceKind,
    DeviceLinking,
    DeviceTarget,
    ElfFile,
    MachOFile,
    PeFile,
    Severity,
    StaticArchive,
)

# IMAGE_DLLCHARACTERISTICS_*, PE Format, "DLL Characteristics".
_PE_FLAGS = {
    0x0020: "HIGH_ENTROPY_VA",
    0x0040: "DYNAMIC_BASE (ASLR)",
    0x0080: "FORCE_INTEGRITY",
    0x0100: "NX_COMPAT (DEP)",
    0x4000: "GUARD_CF",
}
_LARGE_PAGES = {"aarch64": 0x10000, "ppc64le": 0x10000, "ppc64": 0x10000, "loongarch64": 0x4000}


_PROTECTIONS: dict[str, Callable[[ElfFile], bool]] = {
    "RELRO": lambda item: item.relro,
    "immediate binding (full RELRO)": lambda item: item.bind_now,
    "code without relocations (DT_TEXTREL)": lambda item: not item.text_relocations,
    "segments that are either writable or executable": lambda item: not item.writable_executable,
    "position independence (PIE)": lambda item: not item.fixed_address,
}
_GUARDS = ("IBT", "SHSTK", "BTI", "PAC", "GCS")


@difference
def elf_hardening(old: ElfFile, new: ElfFile) -> Iterator[Change]:
    """Protections of an ELF object: RELRO, a stack without code, PIE, CET, BTI.

    A new executable stack is a break: glibc 2.41 and later refuse the object.
    """
    if not (is_loaded(old) and is_loaded(new)):
        return
    if new.executable_stack and not old.executable_stack:
        phrase = "for an executable stack now: glibc 2.41 and later refuse it"
        yield describe(Severity.BREAK, "ask", phrase)
    largest = _LARGE_PAGES.get(new.architecture, 0)
    if 0 < new.alignment < largest <= old.alignment:
        phrase = f"segments aligned to {new.alignment:#x}, previously {old.alignment:#x}"
        yield describe(Severity.BREAK, "have", f"{phrase}: kernels with larger pages refuse it")
    before, after = (
        {name for name, has in _PROTECTIONS.items() if has(item)}.union(item.guards)
        for item in (old, new)
    )
    yield from _compare(before, after, (*_PROTECTIONS, *_GUARDS))


def _compare(before: set[str], after: set[str], known: Iterable[str]) -> Iterator[Change]:
    """Yield one change for all lost protections, and one for all gained protections."""
    if lost := [name for name in known if name in before - after]:
        yield Change(severity=Severity.CHANGE, sentence=f"lost {', '.join(lost)}")
    if gained := [name for name in known if name in after - before]:
        yield Change(severity=Severity.INFO, sentence=f"gained {', '.join(gained)}")


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
    lost = Severity.BREAK if new.architecture == "aarch64" else Severity.CHANGE
    yield from _compare_signed("code signature", "a", old.signed, new.signed, lost)
    if new.signature_faults and not old.signature_faults:
        phrase = f"a code signature that does not fit: {new.signature_faults[0]}"
        yield describe(Severity.BREAK, "have", phrase)


@difference
def authenticode(old: PeFile, new: PeFile) -> Iterator[Change]:
    """Authenticode signatures of PE images."""
    noun = "Authenticode signature"
    yield from _compare_signed(noun, "an", old.signed, new.signed, Severity.CHANGE)
    if old.signature_matches and new.signature_matches is False:
        yield describe(Severity.BREAK, "have", f"an {noun} that does not match its bytes")


def _compare_signed(
    noun: str, article: str, was: bool, now: bool, lost: Severity
) -> Iterator[Change]:
    if was and not now:
        yield Change(severity=lost, sentence=f"lost its {noun}", together=f"lost their {noun}s")
    elif now and not was:
        yield describe(Severity.INFO, "have", f"{article} {noun} now")


@difference
def gpu_architectures(
    old: ElfFile | PeFile | StaticArchive | DeviceFile,
    new: ElfFile | PeFile | StaticArchive | DeviceFile,
) -> Iterator[Change]:
    """The GPU architectures that a library has code for.

    A GPU that loses its machine code can still run code of an older architecture of its major
    version, or PTX that its driver compiles; AMD's GPUs can run generic code of their family. If
    such code is left, the loss is a change, otherwise a break. PTX also runs on GPUs newer than any
    code in the library: if it is gone, only PTX or machine code for newer GPUs replaces it. Code
    that only some containers have lost is reported, too; a compiler makes one for each source file.
    """
    before, after = _targets(old), _targets(new)
    gone, gained = before - after, after - before
    if rarer := {each for each in before & after if _is_rarer(each, old, new)}:
        usable = [set(group.usable) for group in judged_containers(new)]
        unserved = any(not _is_served(each, those, set()) for each in rarer for those in usable)
        yield Change(
            severity=Severity.BREAK if unserved else Severity.CHANGE,
            sentence=f"lost code for {_format_targets(rarer)} in some of its containers, each of "
            "which has the functions of one source file",
        )
    if gone:
        breaks = [each for each in gone if not _is_served(each, after, gained)]
        text = f"lost code for {_format_targets(gone)}"
        gpus = {each for each in breaks if not _is_for_later(each)}
        nothing = f"nothing runs on {_format_targets(gpus) if gpus else 'later GPUs'}"
        rest = f": {nothing}" if breaks else ""
        yield Change(severity=Severity.BREAK if breaks else Severity.CHANGE, sentence=text + rest)
    if gained:
        yield describe(Severity.INFO, "have", f"code for {_format_targets(gained)} now")


def _is_rarer(target: DeviceTarget, old: Carrier, new: Carrier) -> bool:
    """Return whether fewer containers have code for the target than before, and more lack it."""
    before, after = (
        [(group.count, target in group.usable) for group in judged_containers(each)]
        for each in (old, new)
    )
    having, lacking = (
        [sum(count for count, has in groups if has is wanted) for groups in (before, after)]
        for wanted in (True, False)
    )
    return having[1] < having[0] and lacking[1] > lacking[0]


def _targets(item: ElfFile | PeFile | StaticArchive | DeviceFile) -> set[DeviceTarget]:
    known = (DeviceKind.SASS, DeviceKind.PTX, DeviceKind.AMDGPU)
    return {
        DeviceTarget(kind=code.kind, architecture=code.architecture.rstrip("?"))
        for code in item.device_code
        if code.kind in known and code.architecture and code.linking is not DeviceLinking.UNUSABLE
    }


def _is_served(gone: DeviceTarget, after: set[DeviceTarget], gained: set[DeviceTarget]) -> bool:
    """Whether code that is still there runs on the GPUs of the code that is gone."""
    serving = [each for each in after if runs_on(each, gone.architecture)]
    if not _is_for_later(gone) or any(map(_is_for_later, serving)):
        return bool(serving)
    # Only machine code for a later major version than that of the PTX replaces it.
    compiled = DeviceTarget(kind=DeviceKind.SASS, architecture=gone.architecture)
    return bool(serving) and any(
        each.kind is DeviceKind.SASS
        and runs_on(gone, each.architecture)
        and not runs_on(compiled, each.architecture)
        for each in gained
    )


def _is_for_later(target: DeviceTarget) -> bool:
    """Whether a target is PTX without a suffix, which also runs on all later GPUs."""
    return target.kind is DeviceKind.PTX and target.architecture[-1:] not in ("a", "f")


def _format_targets(targets: set[DeviceTarget]) -> str:
    names = {
        f"PTX for {each.architecture}" if each.kind is DeviceKind.PTX else each.architecture
        for each in targets
    }
    return ", ".join(sorted(names, key=lambda name: (name.startswith("PTX"), len(name), name)))
