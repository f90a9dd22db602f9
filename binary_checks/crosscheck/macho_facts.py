"""What our own reader says of a slice of a Mach-O file, in the terms that are compared."""

from __future__ import annotations

from typing import Any

from binary_checks.model import Dependency, Kind, MachOFile

_TYPES = {Kind.EXECUTABLE: "EXECUTE", Kind.RELOCATABLE: "OBJECT", Kind.DEBUG: "DSYM"}
_KINDS = ("weak", "reexported", "upward", "delayed")


def macho_facts(item: MachOFile) -> dict[str, Any]:
    """The facts by name; versions are three numbers where the other readers have them."""
    facts: dict[str, Any] = {
        "architecture": item.architecture,
        "platforms": list(item.platforms),
        "minimum_os": item.minimum_os,
        "sdk": item.sdk,
    }
    if item.kind is not Kind.OTHER:
        facts["type"] = "BUNDLE" if item.bundle else _TYPES.get(item.kind, "DYLIB")
    if item.kind in (Kind.RELOCATABLE, Kind.OTHER):
        return facts
    facts |= {
        "name": item.name,
        "current_version": _lengthen(item.current_version),
        "compatibility_version": _lengthen(item.compatibility_version),
        "rpaths": list(item.rpaths),
        "uuid": item.uuid,
    }
    if item.kind is Kind.DEBUG:
        return facts
    return facts | {
        "needed": [_spell(dependency) for dependency in item.needed],
        "signed": item.signed,
        "two_level": item.two_level_namespace,
        "chained_fixups": item.chained_fixups,
        "imports": sorted(f"{s.library} {s.name}" + "?" * s.weak for s in item.imports),
        "exports": sorted(s.name + "*" * s.weak for s in item.exports),
    }


def _lengthen(version: str) -> str:
    return version + ".0" * (2 - version.count(".")) if version else ""


def _spell(dependency: Dependency) -> str:
    return dependency.name + "".join(f" {word}" for word in _KINDS if getattr(dependency, word))
