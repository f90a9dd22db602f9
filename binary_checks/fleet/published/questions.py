"""Asks every place where cells are published, each once, a few at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from binary_checks.fleet.cell import Cell
from binary_checks.fleet.cells.cells_file import fill, names_file
from binary_checks.fleet.cells.matrix import CellSource, Matrix
from binary_checks.fleet.published.conda_records import look_up_in_channel
from binary_checks.fleet.published.index_pages import look_up_on_index
from binary_checks.fleet.published.looked_up import LookedUp, fail
from binary_checks.fleet.published.package_folders import look_up_in_folder
from binary_checks.fleet.published.single_files import as_address, look_up_file, settle
from binary_checks.fleet.states import CellState
from binary_checks.knowledge.configurations import find_day
from binary_checks.sources.surroundings import Surroundings
from binary_checks.web.addresses import show

_T = TypeVar("_T")
_AT_ONCE = 8  # questions to servers
_DOWNLOADS = 3  # files that are hashed at once
_PATIENCE = 3  # projects for which an index fails before it is left alone


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What one request, or a few, answer for all of its cells."""

    kind: str  # index, folder, url, conda
    place: str  # URL, path or channel
    what: str  # the project; "" where the place is the file
    prereleases: bool = False


def look_up(matrix: Matrix, surroundings: Surroundings) -> list[LookedUp]:
    """The answer for each cell, by id, with the SHA-256 of each file."""
    questions: dict[Question, list[Cell]] = {}
    for cell in matrix.cells:
        questions.setdefault(_ask_for(cell, matrix), []).append(cell)
    surroundings.connect()  # before threads ask for it: the user's settings are read once
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
    """Asks; an index that never answers is left alone after a few projects."""

    def __init__(self, folder: Path, surroundings: Surroundings) -> None:
        self._folder, self._surroundings = folder, surroundings
        self._lock = threading.Lock()
        self._answered: set[str] = set()  # indexes
        self._failures: dict[str, list[str]] = {}

    def ask(self, question: Question, cells: Sequence[Cell]) -> list[LookedUp]:
        """The answer for each of the cells."""
        place = question.place
        with self._lock:
            failures = self._failures.setdefault(place, [])
            given_up = len(failures) >= _PATIENCE and place not in self._answered
        if given_up:
            said = f"{failures[-1]}; nor did it answer for {len(failures) - 1} other projects"
            return fail(cells, said, show(place) or "pip's index")
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
    """The answers, where more has to be asked of a file with that: once for each file."""
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
    """What was found out of a file, for another cell that stands for it."""
    if settled.state is not None:
        return replace(settled, cell=found.cell)
    return replace(found, hashes=settled.hashes, size=settled.size, modified=settled.modified)
