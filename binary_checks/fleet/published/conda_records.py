"""Looks conda packages up in a channel: one question for all cells that it is asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from binary_checks.errors import GatherError, ProfileError
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.cells.matrix import name_subdir
from binary_checks.fleet.published.looked_up import LookedUp, fail, miss
from binary_checks.sources.conda_channel import RecordWish, find_records
from binary_checks.sources.surroundings import Surroundings
from binary_checks.web.addresses import show


def look_up_in_channel(
    channel: str, folder: Path, cells: Sequence[Cell], surroundings: Surroundings
) -> list[LookedUp]:
    """The newest package of each cell; a channel that is a folder is relative to ``folder``."""
    own = (folder / channel).absolute()
    shown = show(channel) if "://" in channel else str(own) if own.is_dir() else channel
    wishes = [
        RecordWish(spec=cell.package, subdir=name_subdir(cell), python=cell.python)
        for cell in cells
    ]
    try:
        records = find_records(channel, folder, wishes, surroundings)
    except (GatherError, ProfileError) as error:
        return fail(cells, error, shown)
    return [_read(cell, row, shown) for cell, row in zip(cells, records, strict=True)]


def _read(cell: Cell, row: Mapping[str, Any], channel: str) -> LookedUp:
    if unsolved := row.get("unsolved"):
        return miss(cell, f"{unsolved} (asked: {channel})", channel)
    hashes = {name: str(row[name]) for name in ("sha256", "md5") if row[name]}
    return LookedUp(
        cell=cell,
        file_name=str(row["file_name"]),
        name=str(row["name"]),
        version=str(row["version"]),
        url=str(row["url"]),
        hashes=hashes,
        size=row["size"],
        uploaded=str(row["timestamp"]),
        index=channel,
    )
