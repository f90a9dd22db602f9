"""PE: our facts, and the facts of pefile and LIEF.

pefile takes 13 seconds and 700 MB for all of cv2.pyd, so only the needed directories are read. By
default it cuts names at 512 characters, and exports and imports at 8,192 (QtGui.pyd of PySide6 has
more): these limits are raised. pefile also replaces the ordinals of two libraries by names; the
tables use the ordinals. LIEF is told to skip resources, relocations and exceptions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from binary_checks.crosscheck.fact_tables import (
    LOADED,
    Allowance,
    Fact,
    Facts,
    Library,
    Table,
    UnparsedError,
    number,
    silent,
    text,
)
from binary_checks.model import Kind

_MACHINES = {
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
_OURS = {name: machine for machine, name in _MACHINES.items()}
_OURS |= {hybrid: _OURS[name] for name, hybrid in _HYBRIDS.items()}
"""Machine numbers by architecture. A hybrid image has the number of another architecture."""
_LONGEST = 1 << 16  # bytes of a name
_MOST = 1 << 20  # exports, imports
_DIRECTORIES = [0, 1, 6, 10, 13]  # exports, imports, debug, load configuration, delay imports
_SECURITY = 4
_WRITABLE_EXECUTABLE = 0xA0000000  # IMAGE_SCN_MEM_WRITE | IMAGE_SCN_MEM_EXECUTE
_HEADERS = LOADED | {Kind.DEBUG}
_Import = tuple[str, bool, list[str]]  # DLL, whether it is delay-loaded, names and "#5"
_Export = tuple[str, int | None, str]  # name, ordinal, forwarder


def _machine_of(architecture: str) -> int:
    """Return the machine number of an architecture; ``machine-<number>`` contains it."""
    _, _, machine = architecture.partition("machine-")
    return int(machine, 0) if machine else _OURS[architecture]


def _list_exports(exports: Iterable[_Export]) -> list[str]:
    """Format each name, ordinal and forwarder: ``name@1->OTHER.name``."""
    return sorted(
        f"{'' if name.startswith('#') else name}@{ordinal}" + f"->{target}" * bool(target)
        for name, ordinal, target in exports
    )


FACTS = (
    Fact(
        "architecture",
        "the architecture; it can be ARM64EC or ARM64X, unlike the machine in the header",
        kinds=_HEADERS,
    ),
    Fact(
        "file_machine", "the machine in the file header",
        lambda item: _machine_of(item.architecture), kinds=_HEADERS,
    ),
    Fact("characteristics", "flags in the file header", kinds=_HEADERS),
    Fact("dll_characteristics", "mitigations: ASLR, DEP, control flow guard", kinds=_HEADERS),
    Fact("subsystem", "windowed, console or other", kinds=_HEADERS),
    Fact("subsystem_version", "the oldest Windows", kinds=_HEADERS),
    Fact("linker_version", "the version in the optional header", kinds=_HEADERS),
    Fact("name", "the DLL's name in its export directory"),
    Fact(
        "needed", "DLLs imported at load",
        lambda item: [need.name for need in item.needed if not need.delayed],
    ),
    Fact(
        "delayed", "DLLs imported at first use",
        lambda item: [need.name for need in item.needed if need.delayed],
    ),
    Fact(
        "imports", "names and ordinals by DLL",
        lambda item: sorted(f"{symbol.library}:{symbol.name}" for symbol in item.imports),
    ),
    Fact(
        "exports", "names, ordinals and forwarders",
        lambda item: _list_exports((s.name, s.ordinal, s.forwarder) for s in item.exports),
    ),
    Fact("pdb", "the path in the CodeView record"),
    Fact("dependent_load_flags", "a field of the load configuration"),
    Fact(
        "writable_executable", "sections that are writable and executable",
        lambda item: list(item.writable_executable), kinds=_HEADERS,
    ),
    Fact("signed", "an Authenticode signature"),
    Fact(
        "signature_matches", "whether the signature's digest matches the file",
        lambda item: "" if item.signature_matches is None else str(item.signature_matches),
    ),
)  # fmt: skip


def _make_facts(
    *, machine: int, hybrid: bool, imported: list[_Import], exported: Iterable[_Export]
) -> Facts:
    """Return the facts that follow from the contents of an image as read by a library."""
    architecture = _MACHINES.get(machine, f"machine-{machine:#x}")
    return {
        "architecture": _HYBRIDS.get(architecture, architecture) if hybrid else architecture,
        "file_machine": machine,
        "needed": list(dict.fromkeys(dll for dll, delayed, _ in imported if not delayed)),
        "delayed": list(dict.fromkeys(dll for dll, delayed, _ in imported if delayed)),
        "imports": sorted(f"{dll}:{name}" for dll, _, names in imported for name in names),
        "exports": _list_exports(exported),
    }


def _look_with_pefile(path: str) -> dict[str, Facts]:
    import pefile

    pefile.MAX_SYMBOL_NAME_LENGTH = pefile.MAX_IMPORT_NAME_LENGTH = pefile.MAX_DLL_LENGTH = _LONGEST
    pefile.MAX_IMPORT_SYMBOLS = _MOST
    with pefile.PE(path, fast_load=True, max_symbol_exports=_MOST) as image:
        image.parse_data_directories(_DIRECTORIES)
        header, optional = image.FILE_HEADER, image.OPTIONAL_HEADER
        configuration = getattr(image, "DIRECTORY_ENTRY_LOAD_CONFIG", None)
        loading = configuration.struct if configuration else None
        directory = getattr(image, "DIRECTORY_ENTRY_EXPORT", None)
        debug = getattr(image, "DIRECTORY_ENTRY_DEBUG", ())
        paths = (getattr(each.entry, "PdbFileName", b"") for each in debug if each.entry)
        facts = _make_facts(
            machine=header.Machine,
            hybrid=bool(getattr(loading, "CHPEMetadataPointer", 0)),
            imported=[
                (
                    text(entry.dll),
                    delayed,
                    [
                        f"#{e.ordinal}" if e.import_by_ordinal else text(e.name)
                        for e in entry.imports
                    ],
                )
                for delayed, name in ((False, "IMPORT"), (True, "DELAY_IMPORT"))
                for entry in getattr(image, f"DIRECTORY_ENTRY_{name}", ())
            ],
            exported=(
                (text(each.name), each.ordinal, text(each.forwarder))
                for each in (directory.symbols if directory else ())
                if each.address or each.forwarder
            ),
        )
        # pefile stops at the first name that is not ASCII (libalpaqa.dll of casadi).
        given_up = [each for each in image.get_warnings() if "in the export directory" in each]
        if directory and given_up:
            facts["exports"] = silent(f"it gives up: {given_up[0]}")
        facts |= {
            "characteristics": header.Characteristics,
            "dll_characteristics": optional.DllCharacteristics,
            "subsystem": optional.Subsystem,
            "subsystem_version": f"{optional.MajorSubsystemVersion}."
            f"{optional.MinorSubsystemVersion}",
            "linker_version": f"{optional.MajorLinkerVersion}.{optional.MinorLinkerVersion}",
            "name": text(directory.name) if directory else "",
            "pdb": next((text(path.rstrip(b"\0")) for path in paths if path), ""),
            "dependent_load_flags": getattr(loading, "DependentLoadFlags", 0),
            "writable_executable": [
                text(section.Name.rstrip(b"\0"))
                for section in image.sections
                if section.Characteristics & _WRITABLE_EXECUTABLE == _WRITABLE_EXECUTABLE
            ],
            "signed": bool(optional.DATA_DIRECTORY[_SECURITY].Size),
        }
        return {"": facts}


def _look_with_lief(path: str) -> dict[str, Facts]:
    import lief

    lief.logging.disable()
    wanted = lief.PE.ParserConfig()
    wanted.parse_rsrc = wanted.parse_reloc = wanted.parse_exceptions = False
    image: Any = lief.PE.parse(path, wanted)
    if image is None:
        raise UnparsedError("it does not parse the file")
    optional, configuration = image.optional_header, image.load_configuration
    signatures, export = list(image.signatures), image.get_export()
    facts = _make_facts(
        machine=number(image.header.machine),
        hybrid=image.is_arm64ec or image.is_arm64x,
        imported=[
            (
                text(entry.name),
                delayed,
                [
                    f"#{each.ordinal}" if each.is_ordinal else text(each.name)
                    for each in entry.entries
                ],
            )
            for delayed, entries in ((False, image.imports), (True, image.delay_imports))
            for entry in entries
        ],
        exported=(
            (
                text(each.name),
                each.ordinal,
                f"{each.forward_information.library}.{each.forward_information.function}"
                if each.is_forwarded
                else "",
            )
            for each in (export.entries if export else ())
            if each.is_forwarded or each.address
        ),
    )
    matches = ""
    if signatures:  # LIEF also verifies certificates, which does not matter here
        digest = bytes(image.authentihash(signatures[0].digest_algorithm))
        matches = str(digest == bytes(signatures[0].content_info.digest))
    facts |= {
        "characteristics": image.header.characteristics,
        "dll_characteristics": optional.dll_characteristics,
        "subsystem": number(optional.subsystem),
        "subsystem_version": f"{optional.major_subsystem_version}."
        f"{optional.minor_subsystem_version}",
        "linker_version": f"{optional.major_linker_version}.{optional.minor_linker_version}",
        "name": text(export.name) if export else "",
        "pdb": text(image.codeview_pdb.filename) if image.codeview_pdb else "",
        "dependent_load_flags": (configuration.dependent_load_flags or 0) if configuration else 0,
        "writable_executable": [
            text(section.fullname.rstrip(b"\0"))
            for section in image.sections
            if section.characteristics & _WRITABLE_EXECUTABLE == _WRITABLE_EXECUTABLE
        ],
        "signed": bool(signatures),
        "signature_matches": matches,
    }
    return {"": facts}


def _keep_ascii(names: list[str]) -> list[str]:
    return [name for name in names if name.isascii()]


TABLE = Table(
    facts=FACTS,
    libraries=(
        Library(
            name="pefile",
            distribution="pefile",
            look=_look_with_pefile,
            unknown=frozenset({"signature_matches"}),
            allowances={
                "imports": Allowance(
                    reason="it leaves out names with non-ASCII characters "
                    "(`is_valid_function_name` in pefile.py), such as those of casadi's "
                    "libalpaqa.dll",
                    narrow=_keep_ascii,
                ),
            },
        ),
        Library(
            name="LIEF",
            distribution="lief",
            look=_look_with_lief,
            allowances={
                "imports": Allowance(
                    reason="it leaves out names that are not printable ASCII "
                    "(`is_valid_import_name` in its include/LIEF/PE/Parser.hpp)",
                    narrow=_keep_ascii,
                ),
            },
        ),
    ),
)
