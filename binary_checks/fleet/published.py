"""Find each cell's published file: ask every index, channel, folder and URL once."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from binary_checks.errors import BinaryChecksError, GatherError, NotThere, ProfileError
from binary_checks.fleet.cells import CellSource, Matrix, fill, name_subdir, name_target, names_file
from binary_checks.fleet.night import Cell
from binary_checks.indexes.choice import Listing, WheelRequest, choose_listed, read_listing
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

_T = TypeVar("_T")
_AT_ONCE = 8  # requests at the same time
_DOWNLOADS = 3  # files hashed at the same time
_PATIENCE = 3  # projects for which an index may fail before it is no longer asked


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question that a few requests answer for all of its cells."""

    kind: str  # index, folder, url, conda
    place: str  # URL, path or channel
    what: str  # the project; "" if the place is the file
    prereleases: bool = False


def look_up(matrix: Matrix, surroundings: Surroundings) -> list[LookedUp]:
    """Return the answer for each cell, sorted by id, with the SHA-256 of each file."""
    questions: dict[Question, list[Cell]] = {}
    for cell in matrix.cells:
        questions.setdefault(_ask_for(cell, matrix), []).append(cell)
    surroundings.connect()  # before threads need it, so that the user's settings are read once
    asking = _Asking(matrix.folder, surroundings)
    answers = _map(lambda pair: asking.ask(*pair), questions.items(), _AT_ONCE)
    found = [answer for each in answers for answer in each]
    sources = {cell.id: matrix.source_of(cell) for cell in matrix.cells}
    return sorted(_settle(found, sources, surroundings), key=lambda each: each.cell.id)


def _map(
    function: Callable[[tuple[Question, list[Cell]]], _T],
    items: Iterable[tuple[Question, list[Cell]]],
    at_once: int,
) -> list[_T]:
    with ThreadPoolExecutor(at_once) as pool:
        return [*pool.map(function, items)]


def _ask_for(cell: Cell, matrix: Matrix) -> Question:
    if names_file(cell.package):
        return Question(kind="url", place=as_address(cell.package, matrix.folder), what="")
    source = matrix.source_of(cell)

    def filled(key: str) -> str:
        where = f"{matrix.source}: sources.{source.name}: {key}"
        return fill(getattr(source, key), cell, where)

    if source.url:
        return Question(kind="url", place=filled("url"), what="")
    if source.conda:
        return Question(kind="conda", place=filled("conda"), what="")
    project = _name_project(cell)
    if source.folder:
        return Question(
            kind="folder",
            place=filled("folder"),
            what=f"{cell.kind} {project}",
            prereleases=source.prereleases,
        )
    return Question(
        kind="index", place=filled("index"), what=project, prereleases=source.prereleases
    )


def _name_project(cell: Cell) -> str:
    if cell.kind != "wheel":
        return cell.package
    return canonicalize_name(Requirement(cell.package).name)


class _Asking:
    """The sender of all questions; it stops asking an index that failed for several projects."""

    def __init__(self, folder: Path, surroundings: Surroundings) -> None:
        self._folder, self._surroundings = folder, surroundings
        self._lock = threading.Lock()
        self._answered: set[str] = set()  # indexes
        self._failures: dict[str, list[str]] = {}

    def ask(self, question: Question, cells: Sequence[Cell]) -> list[LookedUp]:
        """Return the answer for each of the cells."""
        place = question.place
        with self._lock:
            failures = self._failures.setdefault(place, [])
            given_up = len(failures) >= _PATIENCE and place not in self._answered
        if given_up:
            message = f"{failures[-1]}; requests for {len(failures) - 1} other projects failed, too"
            return fail(cells, message, show(place) or "pip's index")
        found = self._ask(question, cells)
        broken = [each.reason for each in found if each.state is CellState.INFRA]
        with self._lock:
            if len(broken) < len(found):
                self._answered.add(place)
            elif question.kind == "index":
                failures.append(broken[0])
        return found

    def _ask(self, question: Question, cells: Sequence[Cell]) -> list[LookedUp]:
        surroundings, place = self._surroundings, question.place
        asks: Mapping[str, Callable[[], list[LookedUp]]] = {
            "url": lambda: look_up_file(place, cells, surroundings),
            "conda": lambda: look_up_in_channel(place, self._folder, cells, surroundings),
            "folder": lambda: look_up_in_folder(
                (self._folder / place).absolute(),
                cells,
                surroundings,
                prereleases=question.prereleases,
            ),
            "index": lambda: look_up_on_index(
                place, cells, surroundings, prereleases=question.prereleases
            ),
        }
        try:
            return asks[question.kind]()
        except OSError as error:
            return fail(cells, f"{show(place)}: {error.strerror or error}", show(place))


def _settle(
    found: Sequence[LookedUp], sources: Mapping[str, CellSource], surroundings: Surroundings
) -> Iterator[LookedUp]:
    """Complete answers that lack a hash or a date, asking once for each file."""
    dated = {each.url for each in found if _needs_date(each, sources[each.cell.id])}
    wanting = {
        each.url: each
        for each in found
        if each.state is None and (not each.hashes.get("sha256") or each.url in dated)
    }
    client = surroundings.connect()
    with ThreadPoolExecutor(_DOWNLOADS) as pool:
        settled = pool.map(
            lambda each: settle(each, client, dated=each.url in dated), wanting.values()
        )
        more = dict(zip(wanting, settled, strict=True))
    for each in found:
        yield _join(each, more[each.url]) if each.state is None and each.url in more else each


def _needs_date(found: LookedUp, source: CellSource) -> bool:
    unknown = find_day(found.version, found.uploaded, found.modified) is None
    return found.state is None and source.freshness is not None and unknown


def _join(found: LookedUp, settled: LookedUp) -> LookedUp:
    """Return the answer with the hash and the date that ``settled`` has for the same file."""
    if settled.state is not None:
        return replace(settled, cell=found.cell)
    return replace(found, hashes=settled.hashes, size=settled.size, modified=settled.modified)


# A source's answer for one cell: its file, or why there is none.


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


def fail(cells: Iterable[Cell], error: BinaryChecksError | str, index: str = "") -> list[LookedUp]:
    """Return the answers for cells whose source could not be asked."""
    reason = str(error)
    return [
        LookedUp(cell=cell, state=CellState.INFRA, reason=reason, index=index) for cell in cells
    ]


def miss(cell: Cell, reason: str, index: str = "", serial: str = "") -> LookedUp:
    """Return the answer for a cell for which nothing is published."""
    return LookedUp(cell=cell, state=CellState.MISSING, reason=reason, index=index, serial=serial)


# Wheels, found as pip finds them: a project's page is fetched once for all of its cells.


def look_up_on_index(
    index: str, cells: Sequence[Cell], surroundings: Surroundings, *, prereleases: bool
) -> list[LookedUp]:
    """Return each cell's file on an index or on a page of files; "" means pip's own indexes."""
    own = surroundings.index_places
    places = replace(own, indexes=(index,), links=()) if index else own
    # a page of files, as for buckets, which serve no page for names that end with "/"
    if index.endswith(".html"):
        places = replace(own, indexes=(), links=(index,))
    if index:
        surroundings.connect().store_credentials(index)
    return _look_up_project(places, cells, surroundings, prereleases=prereleases or own.prereleases)


def look_up_wheels_in_folder(
    folder: Path, cells: Sequence[Cell], surroundings: Surroundings, *, prereleases: bool
) -> list[LookedUp]:
    """Return each cell's file among the wheels in a folder."""
    places = IndexPlaces(indexes=(), links=(folder.as_uri(),))
    return _look_up_project(places, cells, surroundings, prereleases=prereleases)


def _look_up_project(
    places: IndexPlaces, cells: Sequence[Cell], surroundings: Surroundings, *, prereleases: bool
) -> list[LookedUp]:
    """Return the answers for cells that all ask for the same project, in any version."""
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


def make_wish(cell: Cell, surroundings: Surroundings, *, prereleases: bool) -> WheelRequest:
    """Return a cell's request, for its Python and system. Raises ProfileError or GatherError."""
    wanted = Requirement(cell.package)
    target = name_target(cell)
    there = replace(surroundings, target=target) if target else surroundings
    python = there.tagged_python
    return WheelRequest(
        asked=cell.package,
        project=canonicalize_name(wanted.name),
        specifier=wanted.specifier,
        tags=python.tags,
        python=python.version,
        label=python.label,
        prereleases=prereleases,
    )


# Conda packages, libtorch archives and the project's own kinds of packages in a folder.

_CONDA = (".conda", ".tar.bz2")
_FEW = 5  # names that a message lists
_BUILD = re.compile(r"(?:^|_)(?:py|cp)3(\d{1,2})(?=[_ht]|$)")


def look_up_in_folder(
    folder: Path, cells: Sequence[Cell], surroundings: Surroundings, *, prereleases: bool
) -> list[LookedUp]:
    """Return each cell's file in a folder, by file name; all cells have the same kind and name."""
    if not folder.is_dir():
        return fail(cells, f"{folder}: no such folder", str(folder))
    if cells[0].kind == "wheel":
        return look_up_wheels_in_folder(folder, cells, surroundings, prereleases=prereleases)
    try:
        return [_look_up_in_folder(folder, cell, surroundings) for cell in cells]
    except OSError as error:
        return fail(cells, f"{folder}: cannot be read: {error.strerror}", str(folder))


def _look_up_in_folder(folder: Path, cell: Cell, surroundings: Surroundings) -> LookedUp:
    list_fitting = _list_conda if cell.kind == "conda" else _list_archives
    paths = [*_list_files(folder, cell)]
    found = [*list_fitting(paths, cell)]
    if not found:
        near = sorted(path.name for path in paths if cell.package.split("-")[0] in path.name)
        there = ", ".join(near[:_FEW]) + ", …" * (len(near) > _FEW)
        message = f"no {cell.kind} file matches; found: {there or 'none of that name'}"
        return miss(cell, f"{cell.package}: {message} (asked: {folder})", str(folder))
    newest = max(found, key=_age)
    return look_up_file(newest.as_uri(), [cell], surroundings)[0]


def _list_files(folder: Path, cell: Cell) -> Iterator[Path]:
    """Yield the files in the folder; for conda, also the files in the folders of its subdirs."""
    below = [folder / name for name in (name_subdir(cell), "noarch") if name]
    for each in (folder, *below) if cell.kind == "conda" else (folder,):
        if each.is_dir():
            yield from (path for path in sorted(each.iterdir()) if path.is_file())


def _list_conda(paths: Iterable[Path], cell: Cell) -> Iterator[Path]:
    for path in paths:
        suffix = next((each for each in _CONDA if path.name.endswith(each)), "")
        name, version, build = ["", "", "", *path.name.removesuffix(suffix).rsplit("-", 2)][-3:]
        wanted, _, asked = cell.package.replace("==", "=").partition("=")
        python = _BUILD.search(build)
        fits = python is None or f"3.{python[1]}" == cell.python.rstrip("t")
        if suffix and name == wanted.strip() and asked.strip() in ("", version) and fits:
            yield path


def _list_archives(paths: Iterable[Path], cell: Cell) -> Iterator[Path]:
    """Yield archives whose name matches the cell's glob, or has its prefix and its values.

    The suffix of a kind that a profile adds is unknown: its cell has a glob or the whole name.
    """
    if cell.kind != "libtorch" or "*" in cell.package or cell.package.endswith(SUFFIXES):
        yield from (path for path in paths if fnmatchcase(path.name, cell.package))
        return
    words = [word for word in (cell.libtorch, cell.variant) if word]
    for path in paths:
        named = path.name.startswith(cell.package) and path.name.endswith(SUFFIXES)
        if named and all(word in path.name for word in words):
            yield path


def _age(path: Path) -> tuple[Version, str, float]:
    """Return a sort key for the newest file: version, build and time."""
    version = read_name(path.name)[1]
    try:
        number = Version(version)
    except InvalidVersion:
        number = Version("0")
    build = path.name.rpartition("_")[2].partition(".")[0].rjust(8)
    return number, build if path.name.endswith(_CONDA) else "", path.stat().st_mtime


# Files that a cell names by URL or path, and hashes that no index states.


def look_up_file(url: str, cells: Sequence[Cell], surroundings: Surroundings) -> list[LookedUp]:
    """Return the file at a URL, for every cell that names it."""
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
    """Return project and version, as far as a file's name contains them."""
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
    """Return the time of a file on this host in HTTP's format, or "" for any other URL."""
    here = find_local_path(url)
    return formatdate(here.stat().st_mtime, usegmt=True) if here else ""


def settle(found: LookedUp, client: Client, *, dated: bool) -> LookedUp:
    """Return the answer with the file's SHA-256, reading the file if the index states none.

    With ``dated``, add the server's Last-Modified, too.
    """
    try:
        if found.hashes.get("sha256"):
            state = look_at(client, found.url) if dated else None
            return replace(found, modified=state.modified if state else found.modified)
        state = look_at(client, found.url)
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
    except (GatherError, ProfileError) as error:
        return fail([found.cell], error, found.index)[0]
    return replace(
        found,
        hashes={**found.hashes, "sha256": kept.sha256},
        size=kept.size,
        modified=found.modified or state.modified,
    )


def as_address(text: str, folder: Path) -> str:
    """Return a URL unchanged; return a path, which is relative to the folder, as a URL."""
    return text if "://" in text else (folder / text).absolute().as_uri()


# Conda packages in a channel, asked for once for all cells.


def look_up_in_channel(
    channel: str, folder: Path, cells: Sequence[Cell], surroundings: Surroundings
) -> list[LookedUp]:
    """Return the newest package of each cell; a channel may be a path relative to ``folder``."""
    own = (folder / channel).absolute()
    shown = show(channel) if "://" in channel else str(own) if own.is_dir() else channel
    wishes = [
        RecordRequest(spec=cell.package, subdir=name_subdir(cell), python=cell.python)
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
