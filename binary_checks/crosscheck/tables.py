"""The tables of all formats, from which docs/evidence/readers.md is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from binary_checks.crosscheck import elf_table, macho_table, pe_table
from binary_checks.crosscheck.fact_tables import Library, Table
from binary_checks.model import Format, ObjectFile

TABLES: Mapping[Format, Table] = {
    Format.ELF: elf_table.TABLE,
    Format.MACHO: macho_table.TABLE,
    Format.PE: pe_table.TABLE,
}


def libraries_of(found: Format) -> tuple[Library, ...]:
    """Return the libraries that read a format; () for device code and archives."""
    return TABLES[found].libraries if found in TABLES else ()


def our_facts(item: ObjectFile) -> dict[str, Any]:
    """Return our facts about an object by name; {} for formats that no other library reads.

    Raises Unavailable if the object's symbols are unknown.
    """
    facts = TABLES[item.format].facts if item.format in TABLES else ()
    return {fact.name: fact.of_ours(item) for fact in facts if item.kind in fact.kinds}


def read(library: Library, path: str) -> dict[str, dict[str, Any]]:
    """Return the facts that a library reads in a file, by slice and name.

    Raises whatever the library raises.
    """
    table = TABLES[library.format]
    return {view.name: table.list_facts(view, library.unknown) for view in library.look(path)}


def tabulate() -> Iterator[str]:
    """Yield lines of Markdown: a table for each format, and facts compared only in part."""
    for found, table in TABLES.items():
        names = " | ".join(library.name for library in table.libraries)
        yield from (f"### {found}", "", f"| fact | what it is | {names} |")
        yield "|---|---|" + ":---:|" * len(table.libraries)
        for fact in table.facts:
            cells = " | ".join(_cell(library, fact.name) for library in table.libraries)
            yield f"| `{fact.name}` | {fact.what} | {cells} |"
        yield ""
        for library in table.libraries:
            for name, allowance in library.allowances.items():
                yield f"- `{name}` of {library.name} is compared in part: {allowance.reason}."
        if any(library.allowances for library in table.libraries):
            yield ""


def _cell(library: Library, fact: str) -> str:
    if fact in library.unknown:
        return "unknown"
    return "in part" if fact in library.allowances else "yes"
