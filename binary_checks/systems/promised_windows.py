"""Turns the Windows tags of a wheel into the system that they promise to run on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from packaging.tags import Tag

from binary_checks.model import SystemLibrary, TargetSystem
from binary_checks.systems.python_tags import interpreter_of, spell_interpreter
from binary_checks.systems.windows_libraries import (
    api_sets,
    windows_libraries,
    windows_libraries_partly,
    windows_library,
)

_ARCHITECTURES = {"win_amd64": "x86_64", "win32": "i686", "win_arm64": "aarch64"}


def is_windows(platform: str) -> bool:
    """Whether a platform tag names a Windows."""
    return platform in _ARCHITECTURES


def windows_target(
    tags: tuple[Tag, ...],
    extra_libraries: frozenset[str] = frozenset(),
    dll_directories: tuple[str, ...] = (),
) -> TargetSystem:
    """A clean Windows of the tag's architecture, with the Python of the tag.

    Of a set for several architectures x86_64 is judged, and the others are ``unjudged``.
    """
    platforms = sorted({tag.platform for tag in tags})
    platform = next(name for name in _ARCHITECTURES if name in platforms)
    architecture = _ARCHITECTURES[platform]
    python = interpreter_of(tags, "windows", architecture)
    return TargetSystem(
        name=", ".join(filter(None, (platform, spell_interpreter(python)))),
        system="windows",
        libc="",
        architectures=(architecture,),
        libraries=windows_libraries(architecture).union(
            api_sets(), map(str.lower, extra_libraries)
        ),
        partly=windows_libraries_partly(architecture),
        interpreter=python,
        library_data=_LibraryData(architecture),
        dll_directories=dll_directories,
        unjudged=tuple(name for name in platforms if name != platform),
    )


class _LibraryData(Mapping[str, SystemLibrary]):
    """What the system's DLLs export, where that is known, each read when it is asked for."""

    def __init__(self, architecture: str) -> None:
        self._architecture = architecture

    def __getitem__(self, name: str) -> SystemLibrary:
        found = windows_library(name, self._architecture)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in sorted(windows_libraries(self._architecture)) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
