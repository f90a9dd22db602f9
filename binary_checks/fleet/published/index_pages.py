"""Looks wheels up as pip does: a project's page is fetched once for all cells that ask for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from binary_checks.errors import GatherError, ProfileError
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.cells.matrix import name_target
from binary_checks.fleet.published.looked_up import LookedUp, fail, miss
from binary_checks.indexes.choice import Listing, Wish, choose_listed, read_listing
from binary_checks.indexes.index_places import IndexPlaces, list_files
from binary_checks.sources.surroundings import Surroundings


def look_up_on_index(
    index: str, cells: Sequence[Cell], surroundings: Surroundings, *, prereleases: bool
) -> list[LookedUp]:
    """What each cell gets of an index, of one page of files, or of pip's indexes for ""."""
    own = surroundings.index_places
    places = replace(own, indexes=(index,), links=()) if index else own
    if index.endswith(".html"):  # a page of files: a bucket has no page for what ends with "/"
        places = replace(own, indexes=(), links=(index,))
    if index:
        surroundings.connect().know(index)
    return _look_up(places, cells, surroundings, prereleases=prereleases or own.prereleases)


def look_up_wheels_in_folder(
    folder: Path, cells: Sequence[Cell], surroundings: Surroundings, *, prereleases: bool
) -> list[LookedUp]:
    """What each cell gets of the wheels in a folder."""
    places = IndexPlaces(indexes=(), links=(folder.as_uri(),))
    return _look_up(places, cells, surroundings, prereleases=prereleases)


def _look_up(
    places: IndexPlaces, cells: Sequence[Cell], surroundings: Surroundings, *, prereleases: bool
) -> list[LookedUp]:
    """All of these cells ask for one project, whatever version of it."""
    project = canonicalize_name(Requirement(cells[0].package).name)
    try:
        files = list_files(surroundings.connect(), places, project)
    except (GatherError, ProfileError) as error:
        return fail(cells, error, places.name())
    listing = read_listing(files, project)
    return [*_choose_all(listing, places, cells, surroundings, prereleases=prereleases)]


def _choose_all(
    listing: Listing,
    places: IndexPlaces,
    cells: Sequence[Cell],
    surroundings: Surroundings,
    *,
    prereleases: bool,
) -> Iterator[LookedUp]:
    serials = dict.fromkeys(each.serial or each.page for each in listing.files)
    serial = next(filter(None, serials), "")
    for cell in cells:
        try:
            wish = make_wish(cell, surroundings, prereleases=prereleases)
        except (GatherError, ProfileError) as error:
            yield from fail([cell], error, places.name())
            continue
        try:
            found = choose_listed(listing, wish, places.name())
        except ProfileError as error:
            yield miss(cell, str(error), places.name(), serial)
            continue
        file = found.file
        yield LookedUp(
            cell=cell,
            file_name=file.file_name,
            name=file.file_name.partition("-")[0],
            version=str(found.version),
            url=file.url,
            hashes=file.hashes,
            size=file.size,
            uploaded=file.uploaded,
            index=file.index,
            serial=file.serial or file.page,
        )


def make_wish(cell: Cell, surroundings: Surroundings, *, prereleases: bool) -> Wish:
    """What the cell asks for, on its Python and system. Raises ProfileError or GatherError."""
    wanted = Requirement(cell.package)
    target = name_target(cell)
    there = replace(surroundings, target=target) if target else surroundings
    python = there.tagged_python
    return Wish(
        asked=cell.package,
        project=canonicalize_name(wanted.name),
        specifier=wanted.specifier,
        tags=python.tags,
        python=python.version,
        label=python.label,
        prereleases=prereleases,
    )
