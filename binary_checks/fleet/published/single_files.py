"""Looks up files that a cell names by URL or path, and finds the hash that nobody states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion

from binary_checks.errors import GatherError, NotThere, ProfileError
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.published.looked_up import LookedUp, fail, miss
from binary_checks.packages.cpp_archive_name import parse_name
from binary_checks.sources.download_store import Awaited, fetch, keep_by_hash
from binary_checks.sources.remote import find_here
from binary_checks.sources.surroundings import Surroundings
from binary_checks.sources.url import look_at, read_hashes
from binary_checks.web.addresses import file_name
from binary_checks.web.client import Client


def look_up_file(url: str, cells: Sequence[Cell], surroundings: Surroundings) -> list[LookedUp]:
    """The file behind a URL, for every cell that names it."""
    address, _, fragment = url.partition("#")
    name = file_name(address)
    if not name:
        return fail(cells, f"{address}: names no file")
    client = surroundings.connect(address)
    try:
        state = look_at(client, address)
    except NotThere as error:
        return [miss(cell, str(error)) for cell in cells]
    except (GatherError, ProfileError) as error:
        return fail(cells, error)
    project, version = read_name(name)
    return [
        LookedUp(
            cell=cell,
            file_name=name,
            name=project,
            version=version,
            url=address,
            hashes=read_hashes(fragment),
            size=state.size,
            modified=state.modified or _read_time(address),
        )
        for cell in cells
    ]


def read_name(name: str) -> tuple[str, str]:
    """Project and version, as far as a file's name says them."""
    try:
        return name.partition("-")[0], str(parse_wheel_filename(name)[1])
    except (InvalidWheelFilename, InvalidVersion, ValueError):
        pass
    for suffix in (".conda", ".tar.bz2"):
        parts = name.removesuffix(suffix).rsplit("-", 2)
        if name.endswith(suffix) and len(parts) == 3:
            return parts[0], parts[1]
    found = parse_name(name)
    return found.name, found.version


def _read_time(url: str) -> str:
    """When a file of this host changed last, as HTTP spells it; "" of any other."""
    here = find_here(url)
    return formatdate(here.stat().st_mtime, usegmt=True) if here else ""


def settle(found: LookedUp, client: Client, *, dated: bool) -> LookedUp:
    """The answer with the file's SHA-256, by all of its bytes where the index states none.

    With ``dated`` also with the server's Last-Modified.
    """
    try:
        if found.hashes.get("sha256"):
            state = look_at(client, found.url) if dated else None
            return replace(found, modified=state.modified if state else found.modified)
        state = look_at(client, found.url)
        kept = fetch(
            client,
            Awaited(
                url=found.url,
                file_name=found.file_name,
                key=state.key,
                hashes=found.hashes,
                size=found.size,
                stated_by=found.index,
                here=find_here(found.url),
            ),
        )
        keep_by_hash(kept)
    except (GatherError, ProfileError) as error:
        return fail([found.cell], error, found.index)[0]
    return replace(
        found,
        hashes={**found.hashes, "sha256": kept.sha256},
        size=kept.size,
        modified=found.modified or state.modified,
    )


def as_address(text: str, folder: Path) -> str:
    """The URL of what is a URL, or a path relative to that folder."""
    return text if "://" in text else (folder / text).absolute().as_uri()
