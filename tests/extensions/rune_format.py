"""A toy format of object files: RUNE, and behind it what it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from binary_checks.model import Dependency, Format, Kind, ObjectFile
from binary_checks.objects import LimitedSource


@dataclass(frozen=True, kw_only=True, slots=True)
class RuneFile(ObjectFile):
    """An object that only names what it needs."""

    format: ClassVar[Format] = Format("rune")


def read(path: str, source: LimitedSource) -> tuple[RuneFile, ...]:
    words = source.read(0, source.size).decode().split()
    return (
        RuneFile(
            path=path,
            kind=Kind.SHARED,
            architecture="stone",
            size=source.size,
            needed=tuple(Dependency(name=word) for word in words[1:]),
        ),
    )
