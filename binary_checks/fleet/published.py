"""Find each cell's published file: ask every index, channel, folder and URL once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from binary_checks.errors import GatherError, NotThere, ProfileError
from binary_checks.fleet.cells import Matrix, fill, name_subdir, name_target, names_file
from binary_checks.fleet.night import Cell
from binary_checks.indexes.choice import WheelRequest, choose_listed, read_listing
from binary_checks.indexes.index_places import IndexPlaces, list_files
from binary_checks.knowledge.configurations import find_day
from binary_checks.model import CellState
from binary_checks.packages.cpp_archive import SUFFIXES, parse_name
from binary_checks.sources import Surroundings
from binary_checks.sources.conda_channel import RecordRequest, find_records
from binary_checks.sources.remote import (
    Found,
    fetch,
    find_local_path,
    look_at,
    read_hashes,
    store_by_hash,
)
from binary_checks.web.addresses import file_name, show
from binary_checks.web.client import Client

_AT_ONCE = 8  # requests at the same time
_DOWNLOADS = 3  # files hashed at the same time
_PATIENCE = 3  # projects for which an index may fail before it is no longer asked


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question that a few requests answer for all of its cells."""

    look_up: Callable[[Question, Sequence[Cell], Surroundings], Iterable[LookedUp]]
    folder: Path  # to which a path is relative
    place: str  # URL, path or channel
    project: str = ""  # of wheels
    prereleases: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LookedUp:
    """The answer for one cell; unknown values are empty."""

    cell: Cell
    state: CellState | None = None  # missing or infra; None if there is a file
    reason: str = ""
    file_name: str = ""
    name: str = ""
    version: str = ""
    url: str = ""  # with the credentials that its server needs
    hashes: Mapping[str, str] = field(default_factory=dict)  # by algorithm
    size: int | None = None
    uploaded: str = ""  # ISO 8601, as the index states it
    modified: str = ""  # as in HTTP's Last-Modified
    index: str = ""  # without secrets
    serial: str = ""


def look_up(matrix: Matrix, surroundings: Surroundings) -> list[LookedUp]:
    """Return the answer for each cell, sorted by id, with the SHA-256 of each file."""
    questions: dict[Question, list[Cell]] = {}
    for cell in matrix.cells:
        questions.setdefault(_ask_for(cell, matrix), []).append(cell)
    failures: dict[str, list[str]] = {each.place: [] for each in questions}
    answered = set[str]()
    client = surroundings.connect()  # before threads need it, so that settings are read once

    def ask(question: Question) -> list[LookedUp]:
        cells, failed = questions[question], failures[question.place]
        where = show(question.place) or surroundings.index_places.name()
        if len(failed) >= _PATIENCE and question.place not in answered:
            others = f"requests for {len(failed) - 1} other projects failed, too"
            return [_fail(cell, f"{failed[-1]}; {others}", where) for cell in cells]
        try:
            found = [*question.look_up(question, cells, surroundings)]
        except (GatherError, ProfileError) as error:
            found = [_fail(cell, error, where) for cell in cells]
        except OSError as error:
            found = [_fail(cell, f"{where}: {error.strerror or error}", where) for cell in cells]
        reasons = [each.reason for each in found if each.state is CellState.INFRA]
        if len(reasons) < len(found):
            answered.add(question.place)
        elif question.look_up is _look_up_on_index:
            failed.append(reasons[0])
        return found

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = [*chain.from_iterable(pool.map(ask, questions))]
    wanting = {(each.url, each.index): each for each in found if _is_unsettled(each, matrix)}
    with ThreadPoolExecutor(_DOWNLOADS) as pool:
        settled = pool.map(lambda each: _settle(each, client), wanting.values())
        complete = dict(zip(wanting, settled, strict=True))
    answers = (
        replace(complete.get((each.url, each.index), each), cell=each.cell) for each in found
    )
    return sorted(answers, key=lambda each: each.cell.id)


def _ask_for(cell: Cell, matrix: Matrix) -> Question:
    source, folder, package = matrix.source_of(cell), matrix.folder, cell.package

    def filled(key: str) -> str:
        where = f"{matrix.source}: sources.{source.name}: {key}"
        return fill(getattr(source, key), cell, where)

    if names_file(package):
        place = package if "://" in package else (folder / package).absolute().as_uri()
        return Question(look_up=_look_up_file, folder=folder, place=place)
    if source.url:
        return Question(look_up=_look_up_file, folder=folder, place=filled("url"))
    if source.conda:
        return Question(look_up=_look_up_in_channel, folder=folder, place=filled("conda"))
    if source.folder and cell.kind != "wheel":
        return Question(look_up=_look_up_in_folder, folder=folder, place=filled("folder"))
    return Question(
        look_up=_look_up_wheels_in_folder if source.folder else _look_up_on_index,
        folder=folder,
        place=filled("folder" if source.folder else "index"),
        project=canonicalize_name(Requirement(package).name),
        prereleases=source.prereleases,
    )


def _is_unsettled(found: LookedUp, matrix: Matrix) -> bool:
    """Return whether the answer lacks a hash, or a date that the cell's source needs."""
    dated = matrix.source_of(found.cell).freshness is not None
    unknown = dated and find_day(found.version, found.uploaded, found.modified) is None
    return found.state is None and (unknown or not found.hashes.get("sha256"))


def _settle(found: LookedUp, client: Client) -> LookedUp:
    """Return the answer with the file's date and SHA-256; read the file if no index states it."""
    try:
        state = look_at(client, found.url)
        here = find_local_path(found.url)
        local = formatdate(here.stat().st_mtime, usegmt=True) if here else ""
        dated = replace(found, modified=found.modified or state.modified or local)
        if found.hashes.get("sha256"):
            return dated
        kept = fetch(
            client,
            Found(
                url=found.url,
                file_name=found.file_name,
                key=state.key,
                hashes=found.hashes,
                size=found.size,
                stated_by=found.index,
            ),
        )
        store_by_hash(kept)
    except (GatherError, ProfileError, OSError) as error:
        return _fail(found.cell, error, found.index)
    return replace(dated, hashes={**found.hashes, "sha256": kept.sha256}, size=kept.size)


def _fail(cell: Cell, error: Exception | str, index: str = "") -> LookedUp:
    """Return the answer for a cell whose source could not be asked."""
    return LookedUp(cell=cell, state=CellState.INFRA, reason=str(error), index=index)


def _miss(cell: Cell, error: Exception | str, index: str = "", serial: str = "") -> LookedUp:
    """Return the answer for a cell for which nothing is published."""
    return LookedUp(
        cell=cell, state=CellState.MISSING, reason=str(error), index=index, serial=serial
    )


# Wheels, found as pip finds them: a project's page is fetched once for all of its cells.


def _look_up_on_index(
    question: Question, cells: Sequence[Cell], surroundings: Surroundings
) -> Iterator[LookedUp]:
    """Yield each cell's file on an index or on a page of files; "" means pip's own indexes."""
    places, index = surroundings.index_places, question.place
    if index:
        surroundings.connect().store_credentials(index)
        # a page of files, as for buckets, which serve no page for names that end with "/"
        page = index.endswith(".html")
        places = replace(places, indexes=() if page else (index,), links=(index,) if page else ())
    return _choose_wheels(places, question, cells, surroundings)


def _look_up_wheels_in_folder(
    question: Question, cells: Sequence[Cell], surroundings: Surroundings
) -> Iterator[LookedUp]:
    places = IndexPlaces(indexes=(), links=(_require_folder(question).as_uri(),))
    return _choose_wheels(places, question, cells, surroundings)


def _choose_wheels(
    places: IndexPlaces, question: Question, cells: Sequence[Cell], surroundings: Surroundings
) -> Iterator[LookedUp]:
    """Yield the answers for cells that all ask for the same project, in any version."""
    listed = list_files(surroundings.connect(), places, question.project)
    listing = read_listing(listed, question.project)
    serial = next(
        (each.serial or each.page for each in listing.files if each.serial or each.page), ""
    )
    where = places.name()
    for cell in cells:
        try:
            target = name_target(cell)
            python = (
                replace(surroundings, target=target) if target else surroundings
            ).tagged_python
        except (GatherError, ProfileError) as error:
            yield _fail(cell, error, where)
            continue
        wish = WheelRequest(
            asked=cell.package,
            project=question.project,
            specifier=Requirement(cell.package).specifier,
            tags=python.tags,
            python=python.version,
            label=python.label,
            prereleases=question.prereleases or places.prereleases,
        )
        try:
            found = choose_listed(listing, wish, where)
        except ProfileError as error:
            yield _miss(cell, error, where, serial)
            continue
        yield LookedUp(
            cell=cell,
            file_name=found.file.file_name,
            name=found.file.file_name.partition("-")[0],
            version=str(found.version),
            url=found.file.url,
            hashes=found.file.hashes,
            size=found.file.size,
            uploaded=found.file.uploaded,
            index=found.file.index,
            serial=found.file.serial or found.file.page,
        )


# Conda packages, libtorch archives and the project's own kinds of packages in a folder.

_CONDA = (".conda", ".tar.bz2")
_FEW = 5  # names that a message lists
_BUILD = re.compile(r"(?:^|_)(?:py|cp)3(\d{1,2})(?=[_ht]|$)")


def _look_up_in_folder(
    question: Question, cells: Sequence[Cell], surroundings: Surroundings
) -> Iterator[LookedUp]:
    """Yield each cell's newest file in a folder, by file name."""
    folder = _require_folder(question)
    for cell in cells:
        conda = cell.kind == "conda"
        subdirs = [folder / name for name in (name_subdir(cell), "noarch") if name and conda]
        folders = [each for each in (folder, *subdirs) if each.is_dir()]
        paths = [path for each in folders for path in sorted(each.iterdir()) if path.is_file()]
        fits = _fits_conda if conda else _fits_archive
        if found := [path for path in paths if fits(path.name, cell)]:
            uri = max(found, key=_age).as_uri()
            yield from _look_up_file(replace(question, place=uri), [cell], surroundings)
            continue
        near = sorted(path.name for path in paths if cell.package.split("-")[0] in path.name)
        there = ", ".join(near[:_FEW]) + ", …" * (len(near) > _FEW)
        message = f"no {cell.kind} file matches; found: {there or 'none of that name'}"
        yield _miss(cell, f"{cell.package}: {message} (asked: {folder})", str(folder))


def _require_folder(question: Question) -> Path:
    folder = (question.folder / question.place).absolute()
    if not folder.is_dir():
        raise GatherError(f"{folder}: no such folder")
    return folder


def _fits_conda(file_name: str, cell: Cell) -> bool:
    suffix = next((each for each in _CONDA if file_name.endswith(each)), "")
    name, version, build = ["", "", "", *file_name.removesuffix(suffix).rsplit("-", 2)][-3:]
    wanted, _, asked = cell.package.replace("==", "=").partition("=")
    python = _BUILD.search(build)
    fits = python is None or f"3.{python[1]}" == cell.python.rstrip("t")
    return bool(suffix) and name == wanted.strip() and asked.strip() in ("", version) and fits


def _fits_archive(file_name: str, cell: Cell) -> bool:
    """Return whether the cell's glob matches, or the name has the cell's prefix and values.

    The suffix of a kind that a profile adds is unknown: its cell has a glob or the whole name.
    """
    if cell.kind != "libtorch" or "*" in cell.package or cell.package.endswith(SUFFIXES):
        return fnmatchcase(file_name, cell.package)
    named = file_name.startswith(cell.package) and file_name.endswith(SUFFIXES)
    return named and cell.libtorch in file_name and cell.variant in file_name


def _age(path: Path) -> tuple[Version, str, float]:
    """Return a sort key for the newest file: version, build and time."""
    try:
        number = Version(_read_name(path.name)[1])
    except InvalidVersion:
        number = Version("0")
    build = path.name.rpartition("_")[2].partition(".")[0].rjust(8)
    return number, build if path.name.endswith(_CONDA) else "", path.stat().st_mtime


# Files that a cell names by URL or path, and conda packages in a channel.


def _look_up_file(
    question: Question, cells: Sequence[Cell], surroundings: Surroundings
) -> Iterator[LookedUp]:
    """Yield the file at a URL, for every cell that names it."""
    address, _, fragment = question.place.partition("#")
    name = file_name(address)
    if not name:
        raise ProfileError(f"{address}: names no file")
    project, version = _read_name(name)
    try:
        state = look_at(surroundings.connect(address), address)
    except NotThere as error:
        yield from (_miss(cell, error) for cell in cells)
        return
    for cell in cells:
        yield LookedUp(
            cell=cell,
            file_name=name,
            name=project,
            version=version,
            url=address,
            hashes=read_hashes(fragment),
            size=state.size,
            modified=state.modified,
        )


def _read_name(name: str) -> tuple[str, str]:
    """Return project and version, as far as a file's name contains them."""
    try:
        return name.partition("-")[0], str(parse_wheel_filename(name)[1])
    except (InvalidWheelFilename, InvalidVersion, ValueError):
        pass
    parts = name.rsplit("-", 2)
    if name.endswith(_CONDA) and len(parts) == 3:
        return parts[0], parts[1]
    found = parse_name(name)
    return found.name, found.version


def _look_up_in_channel(
    question: Question, cells: Sequence[Cell], surroundings: Surroundings
) -> Iterator[LookedUp]:
    """Yield the newest package of each cell in a channel, which is asked once for all cells."""
    channel = question.place
    own = (question.folder / channel).absolute()
    shown = show(channel) if "://" in channel else str(own) if own.is_dir() else channel
    wishes = [
        RecordRequest(spec=cell.package, subdir=name_subdir(cell), python=cell.python)
        for cell in cells
    ]
    records = find_records(channel, question.folder, wishes, surroundings)
    for cell, row in zip(cells, records, strict=True):
        if unsolved := row.get("unsolved"):
            yield _miss(cell, f"{unsolved} (asked: {shown})", shown)
            continue
        yield LookedUp(
            cell=cell,
            file_name=str(row["file_name"]),
            name=str(row["name"]),
            version=str(row["version"]),
            url=str(row["url"]),
            hashes={name: str(row[name]) for name in ("sha256", "md5") if row[name]},
            size=row["size"],
            uploaded=str(row["timestamp"]),
            index=shown,
        )
