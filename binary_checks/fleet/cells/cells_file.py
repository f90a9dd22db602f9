"""Read cells.toml: multiply its blocks, leave out exceptions, and find how each cell is run."""

from __future__ import annotations

import hashlib
import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from binary_checks.errors import ProfileError
from binary_checks.files import read_named
from binary_checks.fleet.cells.matrix import (
    KINDS,
    PIPS_INDEX,
    CellSource,
    LeftOut,
    Matrix,
    require_consistent,
    require_value,
)
from binary_checks.fleet.night import AXES, Cell
from binary_checks.model import read_place
from binary_checks.profile import (
    CellCondition,
    convert,
    convert_table,
    line_of_table,
    load_profile,
    parse_toml,
    read_condition,
    reject_unknown,
)

DEFAULT_FILE = "cells.toml"
MOST_CELLS = 20_000
_LARGEST = 4 << 20  # bytes of the file
_LONGEST_ID = 150  # characters, because an id with a suffix becomes the name of a file
_MOST_SECONDS = 7 * 86_400.0

_TABLES: Mapping[str, Any] = {
    **dict.fromkeys(("cells", "leave_out", "gpu", "run"), object),  # arrays of tables
    "night": dict,
    "values": Mapping[str, tuple[object, ...]],
    "sources": Mapping[str, dict],  # type: ignore[type-arg]
    **dict.fromkeys(("runners", "ci"), object),  # about CI, which a night does not read
}
_BLOCK = {**dict.fromkeys(AXES, object), "package": str}
_LEAVE_OUT = {"when": str, "reason": str, "expires": date}
_NIGHT = {"known_problems": str, "causes": str}
_RUN = {"when": str, "place": str, "profile": str, "options": tuple[str, ...], "timeout": float}
_BRACES = re.compile(r"\{([^{}]*)\}")
"""Matches the name of a list of ``[values]`` in a block, and of an axis in a source."""

Axes = Mapping[str, Sequence[Mapping[str, str]]]
"""Axis -> its values; a value such as ``linux-x86_64`` sets two axes."""
Rule = tuple[CellCondition, dict[str, Any], str]
"""A condition, what the table says about the cells that meet it, and its place."""


def read_cells(path: Path, today: date | None = None) -> Matrix:
    """Return the matrix in a file; ``today`` decides what has expired. Raises ProfileError."""
    return parse_cells(read_named(path, _LARGEST, str(path)), path, today)


def parse_cells(content: bytes, path: Path, today: date | None = None) -> Matrix:
    """Return the matrix in bytes that were read from ``path``. Raises ProfileError."""
    return _Reader(content, path, today or datetime.now(timezone.utc).date()).read(content)


class _Reader:
    """The reader of one cells.toml."""

    def __init__(self, content: bytes, path: Path, today: date) -> None:
        self._path, self._today, self._name = path, today, str(path)
        self._tables = convert_table(
            parse_toml(content, self._name), _TABLES, self._name, noun="table"
        )
        self._lists = self._tables.get("values", {})
        self._unused = dict.fromkeys(self._lists)
        self._warnings: list[str] = []
        self._places: dict[str, str] = {}  # of cells, by their ids in lower case
        self._gone: set[str] = set()  # ids of cells that are left out

    def read(self, content: bytes) -> Matrix:
        sources = {
            key: _read_source(key, row, f"{self._name}: sources.{key}")
            for key, row in self._tables.get("sources", {}).items()
        }
        blocks = [
            (self._read_axes(row, where), row.get("package", ""), where)
            for row, where in read_rows(self._tables, self._name, "cells", _BLOCK, ("project",))
        ]
        values = [each for axes, _, _ in blocks for found in axes.values() for each in found]
        used = tuple(axis for axis in AXES if any(axis in each for each in values))
        for key in self._unused:
            self._warnings.append(f"{self._name}: values: {key}: no block uses it; remove it")
        cells = [*self._multiply(blocks, used)]
        left_out = tuple(self._leave_out(cells))
        every = self._configure(cells)
        self._require_sound(every, sources)
        where = f"{self._name}: night"
        night = convert_table(self._tables.get("night", {}), _NIGHT, where)
        return Matrix(
            source=self._name,
            folder=self._path.absolute().parent,
            sha256=hashlib.sha256(content).hexdigest(),
            cells=tuple(cell for cell in every if cell.id not in self._gone),
            product=every,
            axes=used,
            sources=sources,
            left_out=left_out,
            known=night.get("known_problems", ""),
            causes=night.get("causes", ""),
            content=content,
            warnings=tuple(self._warnings),
        )

    def _read_axes(self, row: Mapping[str, Any], where: str) -> Axes:
        found = {}
        for axis in (each for each in AXES if each in row):
            place = f"{where}: {axis}"
            given = row[axis] if isinstance(row[axis], list) else [row[axis]]
            values = [value for each in given for value in self._expand(each, place)]
            if not values:
                raise ProfileError(f"{place}: an empty list makes no cell")
            found[axis] = [_read_value(axis, value, row, place) for value in values]
        return found

    def _expand(self, value: object, where: str) -> Sequence[object]:
        """Return the values of a list for its name in braces: ``"{cuda}"``."""
        found = _BRACES.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return [value]
        reject_unknown([found[1]], self._lists, where, "list of [values]")
        self._unused.pop(found[1], None)
        values: Sequence[object] = self._lists[found[1]]
        return values

    def _multiply(
        self, blocks: Sequence[tuple[Axes, str, str]], used: Sequence[str]
    ) -> Iterator[Cell]:
        """Yield the cells of all blocks, in the order of the file; ids consist of used axes."""
        if not blocks:
            raise ProfileError(f"{self._name}: it has no [[cells]]")
        if sum(prod(map(len, axes.values())) for axes, _, _ in blocks) > MOST_CELLS:
            raise ProfileError(f"{self._name}: more than {MOST_CELLS:,} cells")
        for axes, package, where in blocks:
            for chosen in product(*axes.values()):
                values: dict[str, Any] = {key: each[key] for each in chosen for key in each}
                bare = Cell(id="", package=package or values["project"], **values)
                own = "-".join(filter(None, (getattr(bare, axis) for axis in used)))
                if len(own) > _LONGEST_ID:
                    message = f"the id has more than {_LONGEST_ID} characters"
                    raise ProfileError(f"{where}: {own}: {message}")
                if own.lower() in self._places:
                    before = self._places[own.lower()]
                    raise ProfileError(f"{where}: {own} is a cell of {before} already")
                self._places[own.lower()] = where
                require_consistent(bare, f"{where}: {own}")
                yield replace(bare, id=own)

    def _read_rules(
        self, table: str, known: Mapping[str, Any], required: Iterable[str] = ()
    ) -> Iterator[Rule]:
        for row, where in read_rows(self._tables, self._name, table, known, required):
            # the usual way to run a cell has no condition
            yield read_condition(row.pop("when", "id=*"), f"{where}: when"), row, where

    def _leave_out(self, cells: Sequence[Cell]) -> Iterator[LeftOut]:
        for condition, row, where in self._read_rules("leave_out", _LEAVE_OUT, ("when", "reason")):
            meant = {cell.id for cell in cells if condition.meets(cell)}
            expires = row.get("expires")
            expired = expires is not None and self._today > expires
            if not meant:
                self._warn(where, condition, "matches no cell; remove it")
            if expired:
                fault = f"expired on {expires}: its cells are no longer left out"
                self._warn(where, condition, fault)
            else:
                self._gone |= meant
            if len(self._gone) == len(cells):
                raise ProfileError(f"{where}: when = {condition.written!r:.200}: no cell is left")
            yield LeftOut(
                when=condition.written,
                reason=row["reason"],
                expires=expires.isoformat() if expires else "",
                cells=len(meant),
                expired=expired,
            )

    def _configure(self, cells: Iterable[Cell]) -> tuple[Cell, ...]:
        """Return the cells with a GPU stage and how they are run; the last rule wins."""
        found = list(cells)
        gpu = self._read_rules("gpu", {"when": str}, ("when",))
        rules = [(condition, {"gpu": True}, where) for condition, _, where in gpu]
        for condition, settings, where in (*rules, *self._read_rules("run", _RUN)):
            meant = [number for number, cell in enumerate(found) if condition.meets(cell)]
            if all(found[number].id in self._gone for number in meant):
                self._warn(where, condition, "matches no cell; remove it")
            _require_run(settings, where)
            for number in meant:
                found[number] = replace(found[number], **settings)
        return tuple(found)

    def _warn(self, where: str, condition: CellCondition, fault: str) -> None:
        self._warnings.append(f"{where}: when = {condition.written!r} {fault}")

    def _require_sound(self, cells: Iterable[Cell], sources: Mapping[str, CellSource]) -> None:
        """Raise ProfileError if a cell's kind is unknown, or its source cannot contain it."""
        find_kinds = cache(self._find_kinds)
        for cell in cells:
            if cell.id not in self._gone:
                where = self._places[cell.id.lower()]
                if cell.kind not in KINDS:
                    known = find_kinds(cell.profile)
                    reject_unknown([cell.kind], known, f"{where}: {cell.id}", "kind")
                require_source(cell, sources, where)

    def _find_kinds(self, profile: str) -> dict[str, None]:
        """Return our kinds of packages, and those that a profile adds."""
        path = profile if is_shipped(profile) else self._path.parent / profile
        own = load_profile(str(path)).kinds if profile else ()
        return dict.fromkeys((*KINDS, *(each.stem for each in own)))


def _read_value(axis: str, value: Any, row: Mapping[str, Any], where: str) -> dict[str, str]:
    parts = {axis: value}
    if axis == "system" and isinstance(value, str) and "-" in value:
        if "architecture" in row:
            message = f"{value!r} names an architecture, but the block also names one"
            raise ProfileError(f"{where}: {message}")
        parts["system"], _, parts["architecture"] = value.partition("-")
    return {name: require_value(name, part, where) for name, part in parts.items()}


def _require_run(row: Mapping[str, Any], where: str) -> None:
    if place := row.get("place", ""):
        try:
            read_place(place)
        except ProfileError as error:
            raise ProfileError(f"{where}: place: {error}") from None
    timeout = row.get("timeout", 1.0)
    if not 0 < timeout <= _MOST_SECONDS:
        raise ProfileError(f"{where}: timeout: {timeout:g} s is not between 0 and 7 days")


# ``[sources.NAME]``: where cells are published, and whether a cell fits its source.

_KEYS = {key: kind for key, kind in typing.get_type_hints(CellSource).items() if key != "name"}
_PLACES = ("index", "folder", "url", "conda")
_VALUES = dict.fromkeys((*AXES, "package"))
_FILES = (".whl", ".conda", ".tar.bz2", ".zip")
_FITTING = {"wheel": ("index", "folder", "url"), "conda": ("conda", "folder", "url")}
"""Kind -> the keys of sources that can contain such packages; others need a file's place."""


def _read_source(name: str, row: Mapping[str, Any], where: str) -> CellSource:
    require_value("source", name, where)
    values = convert_table(row, _KEYS, where)
    given = [key for key in _PLACES if key in values]
    if len(given) > 1:
        raise ProfileError(f"{where}: {given[0]} and {given[1]}: give only one of them")
    for key in given:
        require_public(values[key], f"{where}: {key}")
        require_template(values[key], _VALUES, f"{where}: {key}")
    if values.get("freshness", 0) < 0:
        raise ProfileError(f"{where}: freshness: {values['freshness']} is not a number of days")
    return CellSource(name=name, **values)


def require_template(template: str, axes: Mapping[str, Any], where: str) -> None:
    """Raise ProfileError if a text is empty, or has braces without one of these names."""
    reject_unknown(_BRACES.findall(template), axes, where, "axis")
    if not template or {"{", "}"} & set(_BRACES.sub("", template)):
        raise ProfileError(f"{where}: {template!r:.100} is empty, or has an unmatched brace")


def require_public(text: str, where: str) -> None:
    """Raise ProfileError for an address with a secret, because anyone may read the file."""
    from binary_checks.web.addresses import show

    bare = text.partition("#")[0]
    if "://" in bare and show(bare) != bare:
        message = "credentials, a token or a query, which may be secret; put them into a netrc file"
        raise ProfileError(f"{where}: {show(bare)} has {message}")


def is_shipped(named: str) -> bool:
    """Return whether this is the name of a profile in this package, and not a path."""
    return "/" not in named and not named.endswith(".toml")


def names_file(package: str) -> bool:
    """Return whether a cell's package is a path or a URL, for which no source is needed."""
    return "://" in package or "/" in package or package.lower().endswith(_FILES)


def require_source(cell: Cell, sources: Mapping[str, CellSource], where: str) -> None:
    """Raise ProfileError if a cell's source does not exist, or cannot contain its package."""
    where = f"{where}: {cell.id}"
    if cell.source:
        reject_unknown([cell.source], sources, where, "source")
    if names_file(cell.package):
        require_public(cell.package, f"{where}: package")
        return
    source = sources.get(cell.source, PIPS_INDEX)
    place = next((key for key in _PLACES if getattr(source, key)), "index")
    fitting = _FITTING.get(cell.kind, ("folder", "url"))
    fill(getattr(source, place), cell, f"{where}: sources.{source.name}: {place}")
    if place not in fitting:
        known = ", ".join(fitting)
        raise ProfileError(f"{where}: kind is {cell.kind!r}, so its source must be one of: {known}")
    if place == "url" or cell.kind not in _FITTING:
        return
    if bool(cell.system) is not bool(cell.python):
        lacking = "system" if cell.python else "python"
        raise ProfileError(f"{where}: it has no {lacking}, which is needed to choose its file")
    if cell.kind == "wheel":
        _require_requirement(cell.package, where)


def _require_requirement(text: str, where: str) -> None:
    try:
        wanted = Requirement(text)
    except (InvalidRequirement, ValueError):
        raise ProfileError(f"{where}: package: {text!r:.100} is not a requirement") from None
    if wanted.url is not None or wanted.marker is not None:
        raise ProfileError(f"{where}: package: {text!r:.100} has a URL or a marker; remove it")


def fill(template: str, cell: Cell, where: str, **more: str) -> str:
    """Return a template with the cell's values, and ``more``. Raises ProfileError if one lacks."""
    values = {**cell.axes, "package": cell.package, **more}
    for axis in _BRACES.findall(template):
        if not values.get(axis):
            raise ProfileError(f"{where}: {{{axis}}} has no value in {cell.id}")
    return _BRACES.sub(lambda found: values[found[1]], template)


# Arrays of tables, each table with its location for messages.

_MOST_ROWS = 1_000  # of one kind, because each is compared with every cell


def read_rows(
    tables: Mapping[str, Any],
    name: str,
    table: str,
    known: Mapping[str, Any],
    required: Iterable[str] = (),
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the tables ``[[table]]`` of a file, converted, with their places. Raises ProfileError.

    ``tables`` contains the array: the whole file, or the table before the last dot.
    """
    rows = tables.get(table.rpartition(".")[2], [])
    if not isinstance(rows, list):
        raise ProfileError(f"{name}: {table}: write [[{table}]], with two brackets")
    if len(rows) > _MOST_ROWS:
        raise ProfileError(f"{name}: {table}: more than {_MOST_ROWS:,} tables")
    for index, row in enumerate(rows):
        first = next(iter(row), "") if isinstance(row, dict) else ""
        line = line_of_table(first)
        where = f"{name}{f':{line}' * bool(line)}: {table}[{index}]"
        values = convert_table(convert(row, dict, where), known, where)
        for key in required:
            if not str(values.get(key, "")).strip():
                raise ProfileError(f"{where}: {key!r} is missing")
        yield values, where
