"""Reads which dylibs a Mach-O file needs, what it is called itself and which systems it is for."""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from binary_checks.errors import MalformedError
from binary_checks.model import Dependency
from binary_checks.model.objects import make_dependency
from binary_checks.objects.macho.commands import (
    LC_BUILD_VERSION,
    LC_ID_DYLIB,
    LC_LAZY_LOAD_DYLIB,
    LC_LOAD_DYLIB,
    LC_LOAD_UPWARD_DYLIB,
    LC_LOAD_WEAK_DYLIB,
    LC_REEXPORT_DYLIB,
    LC_RPATH,
    LC_UUID,
    LC_VERSION_MIN_IPHONEOS,
    LC_VERSION_MIN_MACOSX,
    LC_VERSION_MIN_TVOS,
    LC_VERSION_MIN_WATCHOS,
    Command,
    Commands,
)

DYLIBS: Final = (
    LC_LOAD_DYLIB,
    LC_LOAD_WEAK_DYLIB,
    LC_REEXPORT_DYLIB,
    LC_LOAD_UPWARD_DYLIB,
    LC_LAZY_LOAD_DYLIB,
)
"""What a two-level ordinal counts."""

_USE_MARKER = 0x1A741800  # in place of a timestamp: the newer command, with flags
_USE_SIZE = 28
_NAME, _PATH = 24, 12  # bytes: where a dylib's and a search path may begin at the earliest
_WEAK, _REEXPORT, _UPWARD = 1, 2, 4

_PLATFORMS = {
    1: "macos",
    2: "ios",
    3: "tvos",
    4: "watchos",
    5: "bridgeos",
    6: "maccatalyst",
    7: "iossimulator",
    8: "tvossimulator",
    9: "watchossimulator",
    10: "driverkit",
    11: "visionos",
    12: "visionossimulator",
}
_VERSION_MIN = {
    LC_VERSION_MIN_MACOSX: "macos",
    LC_VERSION_MIN_IPHONEOS: "ios",
    LC_VERSION_MIN_TVOS: "tvos",
    LC_VERSION_MIN_WATCHOS: "watchos",
}


def read_needed(commands: Commands) -> tuple[Dependency, ...]:
    """Every dylib needed, in the order that two-level ordinals count. Raises MalformedError."""
    return tuple(_read_dylib(command) for command in commands.find(*DYLIBS))


def _read_dylib(command: Command) -> Dependency:
    name, marker, _, _ = command.unpack("4I")
    flags = 0
    if marker == _USE_MARKER and name == _USE_SIZE:
        # A fourth flag delays the initialisers of a dylib, which is loaded at once all the same.
        (*_, flags) = command.unpack("5I")
    _demand_behind(name, _NAME, command)
    return make_dependency(
        name=command.text(name),
        weak=command.type == LC_LOAD_WEAK_DYLIB or bool(flags & _WEAK),
        delayed=command.type == LC_LAZY_LOAD_DYLIB,
        reexported=command.type == LC_REEXPORT_DYLIB or bool(flags & _REEXPORT),
        upward=command.type == LC_LOAD_UPWARD_DYLIB or bool(flags & _UPWARD),
    )


def _read_rpath(command: Command) -> str:
    (path,) = command.unpack("I")
    _demand_behind(path, _PATH, command)
    return command.text(path)


def _demand_behind(name: int, first: int, command: Command) -> None:
    if name < first:
        reason = f"the name of load command {command.type:#x} begins within its fields"
        raise MalformedError(reason, command.offset)


class Identity(NamedTuple):
    """What LC_ID_DYLIB says; "" where there is none."""

    name: str = ""
    current_version: str = ""
    compatibility_version: str = ""


def read_identity(commands: Commands) -> Identity:
    """Install name and versions of a dylib. Raises MalformedError."""
    own = commands.first(LC_ID_DYLIB)
    if own is None:
        return Identity()
    name, _, current, compatibility = own.unpack("4I")
    _demand_behind(name, _NAME, own)
    return Identity(own.text(name), spell_version(current), spell_version(compatibility))


def read_rpaths(commands: Commands) -> tuple[str, ...]:
    """The search path. Raises MalformedError."""
    return tuple(_read_rpath(command) for command in commands.find(LC_RPATH))


def read_uuid(commands: Commands) -> str:
    """The UUID as dwarfdump prints it; "" where there is none. Raises MalformedError."""
    command = commands.first(LC_UUID)
    return str(UUID(bytes=command.unpack("16s")[0])).upper() if command else ""


class Systems(NamedTuple):
    """What a file is made for."""

    platforms: tuple[str, ...]
    minimum_os: str
    sdk: str


def read_systems(commands: Commands) -> Systems:
    """The platforms, and the oldest system and the SDK of macOS, or else of the first platform.

    A zippered dylib is for macOS and Mac Catalyst alike, with a command for each.
    """
    found: dict[str, tuple[str, str]] = {}
    for command in commands.find(LC_BUILD_VERSION, *_VERSION_MIN):
        if command.type == LC_BUILD_VERSION:
            number, minimum, sdk = command.unpack("3I")
            platform = _PLATFORMS.get(number, f"platform {number}")
        else:
            platform = _VERSION_MIN[command.type]
            minimum, sdk = command.unpack("2I")
        if platform in found:
            raise MalformedError(f"two minimum versions of {platform}", command.offset)
        found[platform] = (spell_version(minimum), spell_version(sdk) if sdk else "")
    versions = found.get("macos", next(iter(found.values()), ("", "")))
    return Systems(tuple(found), *versions)


def spell_version(packed: int) -> str:
    """``xxxx.yy.zz`` in nibbles as "11.0"; the third number only where it is not 0."""
    major, minor, patch = packed >> 16, packed >> 8 & 0xFF, packed & 0xFF
    return f"{major}.{minor}" + (f".{patch}" if patch else "")
