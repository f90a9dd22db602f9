"""What LIEF reads in a PE image; resources, relocations and exceptions are not asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import lief

from binary_checks.crosscheck.pe_facts import spell_exports
from binary_checks.crosscheck.readings import Reading, number, spell_machine, text, unique, unparsed

_WRITABLE_EXECUTABLE = 0xA0000000  # IMAGE_SCN_MEM_WRITE, IMAGE_SCN_MEM_EXECUTE


def read(path: str) -> dict[str, Reading]:
    """The facts of the image, under ""."""
    lief.logging.disable()
    wanted = lief.PE.ParserConfig()
    wanted.parse_rsrc = wanted.parse_reloc = wanted.parse_exceptions = False
    image = lief.PE.parse(path, wanted)
    if image is None:
        raise unparsed()
    return {"": _read_headers(image) | _read_directories(image)}


def _read_headers(image: Any) -> Reading:
    optional = image.optional_header
    return {
        "architecture": spell_machine(
            number(image.header.machine), hybrid=image.is_arm64ec or image.is_arm64x
        ),
        "file_machine": number(image.header.machine),
        "characteristics": image.header.characteristics,
        "dll_characteristics": optional.dll_characteristics,
        "subsystem": number(optional.subsystem),
        "subsystem_version": _join(optional, "subsystem_version"),
        "linker_version": _join(optional, "linker_version"),
        "writable_executable": [
            text(section.fullname.rstrip(b"\0"))
            for section in image.sections
            if section.characteristics & _WRITABLE_EXECUTABLE == _WRITABLE_EXECUTABLE
        ],
    }


def _join(optional: Any, name: str) -> str:
    return f"{getattr(optional, f'major_{name}')}.{getattr(optional, f'minor_{name}')}"


def _read_directories(image: Any) -> Reading:
    export, signatures = image.get_export(), list(image.signatures)
    configuration = image.load_configuration
    return {
        "name": text(export.name) if export else "",
        "needed": unique(text(item.name) for item in image.imports),
        "delayed": unique(text(item.name) for item in image.delay_imports),
        "imports": sorted(_find_imports([*image.imports, *image.delay_imports])),
        "exports": sorted(_find_exports(export)) if export else [],
        "pdb": text(image.codeview_pdb.filename) if image.codeview_pdb else "",
        "dependent_load_flags": (configuration.dependent_load_flags or 0) if configuration else 0,
        "signed": bool(signatures),
        "signature_matches": _verify(image, signatures),
    }


def _find_imports(entries: Iterable[Any]) -> Iterator[str]:
    for entry in entries:
        for item in entry.entries:
            name = f"#{item.ordinal}" if item.is_ordinal else text(item.name)
            yield f"{text(entry.name)}:{name}"


def _find_exports(export: Any) -> Iterator[str]:
    for item in export.entries:
        forward = item.forward_information
        target = f"{forward.library}.{forward.function}" if item.is_forwarded else ""
        if target or item.address:
            yield from spell_exports([(text(item.name), item.ordinal, target)])


def _verify(image: Any, signatures: list[Any]) -> str:
    """Whether the digest is right; LIEF also judges certificates, which is not the question."""
    if not signatures:
        return ""
    first = signatures[0]
    found = bytes(image.authentihash(first.digest_algorithm))
    return str(found == bytes(first.content_info.digest))
