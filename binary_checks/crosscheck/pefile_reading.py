"""What pefile reads in a PE image.

Loaded whole, it takes 13 seconds and 700 MB for cv2.pyd: only the directories that count are read.
It cuts names at 512 characters, exports and imports at 8,192 (PySide6's QtGui.pyd has more) unless
its limits are raised, and puts names for the ordinals of two libraries, whose numbers are taken
instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pefile

from binary_checks.crosscheck.pe_facts import spell_exports
from binary_checks.crosscheck.readings import Reading, silence, spell_machine, text, unique

_LONGEST = 1 << 16  # bytes of a name
_MOST = 1 << 20  # exports, imports
_DIRECTORIES = [0, 1, 6, 10, 13]  # exports, imports, debug, load configuration, delayed imports
_SECURITY = 4
_WRITABLE_EXECUTABLE = 0xA0000000  # IMAGE_SCN_MEM_WRITE, IMAGE_SCN_MEM_EXECUTE


def read(path: str) -> dict[str, Reading]:
    """The facts of the image, under ""."""
    pefile.MAX_SYMBOL_NAME_LENGTH = pefile.MAX_IMPORT_NAME_LENGTH = _LONGEST
    pefile.MAX_DLL_LENGTH = _LONGEST
    pefile.MAX_IMPORT_SYMBOLS = _MOST
    with pefile.PE(path, fast_load=True, max_symbol_exports=_MOST) as image:
        image.parse_data_directories(_DIRECTORIES)
        return {"": _read_headers(image) | _read_directories(image)}


def _read_headers(image: Any) -> Reading:
    optional = image.OPTIONAL_HEADER
    return {
        "file_machine": image.FILE_HEADER.Machine,
        "characteristics": image.FILE_HEADER.Characteristics,
        "dll_characteristics": optional.DllCharacteristics,
        "subsystem": optional.Subsystem,
        "subsystem_version": _join(optional, "SubsystemVersion"),
        "linker_version": _join(optional, "LinkerVersion"),
        "writable_executable": [
            text(section.Name.rstrip(b"\0"))
            for section in image.sections
            if section.Characteristics & _WRITABLE_EXECUTABLE == _WRITABLE_EXECUTABLE
        ],
        "signed": bool(optional.DATA_DIRECTORY[_SECURITY].Size),
    }


def _join(optional: Any, name: str) -> str:
    return f"{getattr(optional, f'Major{name}')}.{getattr(optional, f'Minor{name}')}"


def _read_directories(image: Any) -> Reading:
    eager = getattr(image, "DIRECTORY_ENTRY_IMPORT", ())
    delayed = getattr(image, "DIRECTORY_ENTRY_DELAY_IMPORT", ())
    directory = getattr(image, "DIRECTORY_ENTRY_EXPORT", None)
    configuration = getattr(image, "DIRECTORY_ENTRY_LOAD_CONFIG", None)
    loading = configuration.struct if configuration else None
    hybrid = bool(getattr(loading, "CHPEMetadataPointer", 0))
    return {
        "architecture": spell_machine(image.FILE_HEADER.Machine, hybrid=hybrid),
        "name": text(directory.name) if directory else "",
        "needed": unique(text(entry.dll) for entry in eager),
        "delayed": unique(text(entry.dll) for entry in delayed),
        "imports": sorted(_find_imports([*eager, *delayed])),
        "exports": _read_exports(image, directory) if directory else [],
        "pdb": _find_pdb(getattr(image, "DIRECTORY_ENTRY_DEBUG", ())),
        "dependent_load_flags": getattr(loading, "DependentLoadFlags", 0),
    }


def _find_imports(entries: Iterable[Any]) -> Iterator[str]:
    for entry in entries:
        for item in entry.imports:
            name = f"#{item.ordinal}" if item.import_by_ordinal else text(item.name)
            yield f"{text(entry.dll)}:{name}"


def _read_exports(image: Any, directory: Any) -> Any:
    """Sorted; none at all where it says itself that it has not read all of them.

    It stops at the first name that is not ASCII, as those of casadi's libalpaqa.dll.
    """
    given_up = [each for each in image.get_warnings() if "in the export directory" in each]
    return silence(f"it gives up: {given_up[0]}") if given_up else sorted(_find_exports(directory))


def _find_exports(directory: Any) -> Iterator[str]:
    found = [(each.name, each.ordinal, each.forwarder, each.address) for each in directory.symbols]
    yield from spell_exports(
        (text(name), number, text(target))
        for name, number, target, address in found
        if address or target
    )


def _find_pdb(entries: Iterable[Any]) -> str:
    names = (getattr(each.entry, "PdbFileName", b"") for each in entries if each.entry)
    return next((text(name.rstrip(b"\0")) for name in names if name), "")
