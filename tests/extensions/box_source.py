"""A toy source: ``box:NAME`` is a file in the folder ``boxes``."""

from __future__ import annotations

from pathlib import Path

from binary_checks.sources.file import FileSource


def parse(argument: str, folder: Path) -> FileSource | None:
    if not argument.startswith("box:"):
        return None
    return FileSource(path=folder / "boxes" / f"{argument.removeprefix('box:')}.toy")
