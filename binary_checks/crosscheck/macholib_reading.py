"""What macholib reads in a Mach-O file: load commands, of each slice.

It refuses commands that it does not know unless told otherwise, and has no exports trie, bind
opcodes or chained fixups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from macholib import mach_o
from macholib.MachO import MachO

from binary_checks.crosscheck.readings import (
    MACHO_TYPES,
    Reading,
    name_platform,
    spell_cpu,
    sum_up_systems,
    take_apart,
    text,
)

_NAMES = {
    0x0100000C: "ARM64",
    7: "X86",
    0x01000007: "X86_64",
    18: "POWERPC",
    0x01000012: "POWERPC64",
}
_DEPENDENCIES = {
    mach_o.LC_LOAD_DYLIB: "",
    mach_o.LC_LOAD_WEAK_DYLIB: " weak",
    mach_o.LC_REEXPORT_DYLIB: " reexported",
    mach_o.LC_LOAD_UPWARD_DYLIB: " upward",
    mach_o.LC_LAZY_LOAD_DYLIB: " delayed",
}
_OLDEST = {
    mach_o.LC_VERSION_MIN_MACOSX: "macos",
    mach_o.LC_VERSION_MIN_IPHONEOS: "ios",
    mach_o.LC_VERSION_MIN_TVOS: "tvos",
    mach_o.LC_VERSION_MIN_WATCHOS: "watchos",
}
_TWO_LEVEL = 0x80  # MH_TWOLEVEL


def read(path: str) -> dict[str, Reading]:
    """The facts of each slice, by its architecture."""
    file = MachO(path, allow_unknown_load_commands=True)
    slices = (_read_slice(item) for item in file.headers)
    return {facts["architecture"]: facts for facts in slices}


def _read_slice(item: Any) -> Reading:
    head = item.header
    present = {int(command.cmd) for command, _, _ in item.commands}
    return {
        "architecture": spell_cpu(_NAMES.get(int(head.cputype), "?"), int(head.cpusubtype)),
        "type": MACHO_TYPES.get(int(head.filetype), "DYLIB"),
        "two_level": bool(int(head.flags) & _TWO_LEVEL),
        "signed": mach_o.LC_CODE_SIGNATURE in present,
        "chained_fixups": mach_o.LC_DYLD_CHAINED_FIXUPS in present,
        "needed": [name for command in item.commands for name in _find_need(*command)],
        "rpaths": [
            _name(row.path, row, data)
            for command, row, data in item.commands
            if command.cmd == mach_o.LC_RPATH
        ],
        **_read_identity(item.commands),
        **_read_systems(item.commands),
    }


def _find_need(command: Any, row: Any, data: bytes) -> Iterator[str]:
    if (kind := int(command.cmd)) in _DEPENDENCIES:
        yield _name(row.name, row, data) + _DEPENDENCIES[kind]


def _name(offset: Any, row: Any, data: bytes) -> str:
    """The text of a command, whose place counts from the command's start."""
    start = int(offset) - 8 - row._size_  # 8 bytes of cmd and cmdsize
    return text(data[start:].partition(b"\0")[0])


def _read_identity(commands: Any) -> Reading:
    facts: Reading = {"name": "", "current_version": "", "compatibility_version": "", "uuid": ""}
    for command, row, data in commands:
        if command.cmd == mach_o.LC_ID_DYLIB:
            facts["name"] = _name(row.name, row, data)
            for key in ("current_version", "compatibility_version"):
                facts[key] = ".".join(map(str, take_apart(int(getattr(row, key)._version))))
        elif command.cmd == mach_o.LC_UUID:
            facts["uuid"] = str(UUID(bytes=row.uuid)).upper()
    return facts


def _read_systems(commands: Any) -> Reading:
    found = []
    for command, row, _ in commands:
        if command.cmd == mach_o.LC_BUILD_VERSION:
            platform, oldest = name_platform(int(row.platform)), row.minos
        elif command.cmd in _OLDEST:
            platform, oldest = _OLDEST[int(command.cmd)], row.version
        else:
            continue
        found.append((platform, take_apart(int(oldest)), take_apart(int(row.sdk))))
    return sum_up_systems(found)
