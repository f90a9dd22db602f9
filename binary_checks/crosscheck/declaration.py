"""Which facts are compared, which library knows them, and what it is known to get wrong.

docs/readers.md shows the same as a table, written from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from binary_checks.model import Format

_ROOM = "binary_checks.crosscheck"
ELF_FACTS = {
    "architecture": "e_machine, with class, byte order and ARM's float ABI",
    "needed": "DT_NEEDED, in order",
    "soname": "DT_SONAME",
    "rpath": "DT_RPATH",
    "runpath": "DT_RUNPATH",
    "interpreter": "PT_INTERP",
    "build_id": "the note NT_GNU_BUILD_ID",
    "isa_level": "the property GNU_PROPERTY_X86_ISA_1_NEEDED",
    "stack": "PT_GNU_STACK and whether it is executable",
    "relro": "PT_GNU_RELRO",
    "bind_now": "DT_BIND_NOW, DF_BIND_NOW or DF_1_NOW",
    "text_relocations": "DT_TEXTREL or DF_TEXTREL",
    "writable_executable": "a PT_LOAD that is writable and executable",
    "static_tls": "DF_STATIC_TLS",
    "relative_relocations": "DT_RELR",
    "no_default_libraries": "DF_1_NODEFLIB",
    "alignment": "the smallest alignment of a PT_LOAD",
    "version_needs": "version nodes needed of each library, and which of them are weak",
    "defined_versions": "version nodes defined",
    "imports": "undefined dynamic symbols with versions, and which of them are weak",
    "exports": "defined dynamic symbols with versions, default or not",
}
MACHO_FACTS = {
    "architecture": "CPU type and subtype of the slice",
    "type": "file type of the header",
    "name": "LC_ID_DYLIB",
    "current_version": "of LC_ID_DYLIB",
    "compatibility_version": "of LC_ID_DYLIB",
    "needed": "dylibs in order, and whether each is weak, reexported, upward or lazy",
    "rpaths": "LC_RPATH, in order",
    "platforms": "LC_BUILD_VERSION or LC_VERSION_MIN_*",
    "minimum_os": "the oldest system",
    "sdk": "the SDK",
    "uuid": "LC_UUID",
    "signed": "LC_CODE_SIGNATURE",
    "two_level": "MH_TWOLEVEL",
    "chained_fixups": "LC_DYLD_CHAINED_FIXUPS",
    "imports": "binds with their libraries, and which of them may be missing",
    "exports": "the exports trie, and which definitions are weak",
}
PE_FACTS = {
    "architecture": "the machine; ARM64EC and ARM64X are distinguished from the header's",
    "file_machine": "the machine in the file header",
    "characteristics": "of the file header",
    "dll_characteristics": "mitigations: ASLR, DEP, control flow guard",
    "subsystem": "windowed, console or other",
    "subsystem_version": "the oldest Windows",
    "linker_version": "of the optional header",
    "name": "the DLL's name in its export directory",
    "needed": "DLLs imported at load",
    "delayed": "DLLs imported at first use",
    "imports": "names and ordinals by DLL",
    "exports": "names, ordinals and forwarders",
    "pdb": "the path in the CodeView record",
    "dependent_load_flags": "of the load configuration",
    "writable_executable": "sections that are writable and executable",
    "signed": "an Authenticode signature",
    "signature_matches": "its digest is that of the file",
}
FACTS: Mapping[Format, Mapping[str, str]] = {
    Format.ELF: ELF_FACTS,
    Format.MACHO: MACHO_FACTS,
    Format.PE: PE_FACTS,
}
"""By format and name, what the fact is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowance:
    """What a library is known to say otherwise in a part of a fact, which is not compared."""

    reason: str
    narrow: Callable[[Any], Any]  # what is compared of either side's fact


def _keep_ascii(names: list[str]) -> list[str]:
    return [name for name in names if name.isascii()]


def _pad(build_id: str) -> str:
    return build_id + "0" * (-len(build_id) % 8)


@dataclass(frozen=True, kw_only=True, slots=True)
class Library:
    """One library that reads one format, and where it is not asked."""

    name: str
    distribution: str  # to install
    format: Format
    module: str  # of this room, with ``read``
    unknown: frozenset[str] = frozenset()  # facts that it has no word for
    distrusted: Mapping[str, str] = field(default_factory=dict)
    """Facts that it is known to get wrong, and in what: they are not compared."""
    allowances: Mapping[str, Allowance] = field(default_factory=dict)
    """Facts that it is known to get wrong in part."""

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts that are compared with it."""
        left_out = self.unknown | self.distrusted.keys()
        return tuple(name for name in FACTS[self.format] if name not in left_out)


LIBRARIES = (
    Library(
        name="pyelftools",
        distribution="pyelftools",
        format=Format.ELF,
        module=f"{_ROOM}.pyelftools_reading",
    ),
    Library(
        name="LIEF",
        distribution="lief",
        format=Format.ELF,
        module=f"{_ROOM}.lief_elf_reading",
        allowances={
            "build_id": Allowance(
                reason="it counts the padding to 4 bytes as the note's own "
                "(linkers write 8, 16 or 20 bytes)",
                narrow=_pad,
            ),
        },
    ),
    Library(
        name="macholib",
        distribution="macholib",
        format=Format.MACHO,
        module=f"{_ROOM}.macholib_reading",
        unknown=frozenset({"imports", "exports"}),
    ),
    Library(
        name="LIEF",
        distribution="lief",
        format=Format.MACHO,
        module=f"{_ROOM}.lief_macho_reading",
    ),
    Library(
        name="pefile",
        distribution="pefile",
        format=Format.PE,
        module=f"{_ROOM}.pefile_reading",
        unknown=frozenset({"signature_matches"}),
        allowances={
            "imports": Allowance(
                reason="it leaves out names with non-ASCII characters "
                "(`is_valid_function_name` in pefile.py), as those of casadi's libalpaqa.dll",
                narrow=_keep_ascii,
            ),
        },
    ),
    Library(
        name="LIEF",
        distribution="lief",
        format=Format.PE,
        module=f"{_ROOM}.lief_pe_reading",
        allowances={
            "imports": Allowance(
                reason="it leaves out names that are not printable ASCII "
                "(`is_valid_import_name` in its include/LIEF/PE/Parser.hpp)",
                narrow=_keep_ascii,
            ),
        },
    ),
)


def libraries_of(found: Format) -> tuple[Library, ...]:
    """The libraries that read objects of a format; none for device code and archives."""
    return tuple(library for library in LIBRARIES if library.format == found)


def tabulate() -> Iterator[str]:
    """Lines of Markdown: a table for each format, and below it what is not compared and why."""
    for found, facts in FACTS.items():
        libraries = libraries_of(found)
        names = " | ".join(library.name for library in libraries)
        yield from (f"### {found}", "", f"| fact | what it is | {names} |")
        yield "|---|---|" + ":---:|" * len(libraries)
        for name, what in facts.items():
            cells = " | ".join(_cell(library, name) for library in libraries)
            yield f"| `{name}` | {what} | {cells} |"
        yield ""
        for library in libraries:
            for name, reason in library.distrusted.items():
                yield f"- `{name}` of {library.name} is not compared: {reason}."
            for name, allowance in library.allowances.items():
                yield f"- `{name}` of {library.name} is compared in part: {allowance.reason}."
        if any(library.distrusted or library.allowances for library in libraries):
            yield ""


def _cell(library: Library, fact: str) -> str:
    if fact in library.unknown:
        return "unknown"
    if fact in library.distrusted:
        return "not compared"
    return "in part" if fact in library.allowances else "yes"
