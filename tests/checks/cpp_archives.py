"""Small archives of C++ libraries, read as they are from disk, and what checks say of them."""

from __future__ import annotations

from pathlib import Path

from binary_checks import objects
from binary_checks.model import CppArchive, Level, NotInspected, Problem
from binary_checks.packages import open_package
from fixtures.build_cpp_archive import build_cpp_archive
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import archive

LIBRARY = build_elf(soname="libdemo.so")
OBJECT = build_elf(kind="relocatable")
NAMED = "share/cmake/Demo/DemoTargets.cmake"
CONFIGURED = "share/cmake/Demo/DemoConfig.cmake"


def indexed(*symbols: str, **members: bytes) -> bytes:
    """A static library with an index of these symbols."""
    names = len(symbols).to_bytes(4, "big") + bytes(4 * len(symbols))
    names += b"".join(symbol.encode() + b"\0" for symbol in symbols)
    return archive(index=names, **members).replace(b"index/", b"/     ", 1)


def package(folder: Path, members: dict[str, object] | None = None, **how: str) -> CppArchive:
    parts: dict[str, object] = {"lib/libdemo.so": LIBRARY, **(members or {})}
    built = build_cpp_archive(folder, parts, **how)  # type: ignore[arg-type]
    found = open_package(built, objects)
    assert isinstance(found, CppArchive)
    return found


def said(findings: object) -> list[str]:
    """The lines, warnings marked."""
    lines = []
    for each in findings:  # type: ignore[attr-defined]
        assert isinstance(each, Problem | NotInspected)
        mark = "warning: " * (isinstance(each, Problem) and each.level is Level.WARNING)
        mark = "not inspected: " if isinstance(each, NotInspected) else mark
        lines.append(f"{mark}{each.path}: {each.sentence}")
    return lines
