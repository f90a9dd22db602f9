"""Read cells.toml: multiply its blocks, leave out exceptions, and find how each cell is run."""

from __future__ import annotations

import hashlib
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
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
    hint,
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

_TABLES = {"night", "values", "cells", "leave_out", "gpu", "run", "sources"}
_OF_CI = ("runners", "ci")  # tables about CI, which a night does not read
_BLOCK = dict.fromkeys(AXES, object) | {"package": str}
_LEAVE_OUT = {"when": str, "reason": str, "expires": date}
_NIGHT = {"known_problems": str, "causes": str}
_GPU = {"when": str}
_RUN = {"when": str, "place": str, "profile": str, "options": tuple[str, ...], "timeout": float}


def read_cells(path: Path, today: date | None = None) -> Matrix:
    """Return the matrix in a file; ``today`` decides what has expired. Raises ProfileError."""
    return parse_cells(read_named(path, _LARGEST, str(path)), path, today)


def parse_cells(content: bytes, path: Path, today: date | None = None) -> Matrix:
    """Return the matrix in bytes that were read from ``path``. Raises ProfileError."""
    return _Reader(content, path, today or datetime.now(timezone.utc).date()).read()


class _Reader:
    """The reader of one cells.toml."""

    def __init__(self, content: bytes, path: Path, today: date) -> None:
        self._content, self._path, self._today = content, path, today
        self._name = str(path)
        self._tables = parse_toml(content, self._name)
        self._warnings: list[str] = []
        self._gone: set[str] = set()  # ids of cells that are left out
        self._own_kinds: dict[str, tuple[str, ...]] = {}  # by profile: kinds that it adds
        self._blocks: list[tuple[dict[str, Any], str]] = []

    def read(self) -> Matrix:
        known = {name: name for name in (*sorted(_TABLES), *_OF_CI)}
        reject_unknown(self._tables, known, self._name, "table")
        sources = read_sources(self._tables.get("sources", {}), self._name)
        self._blocks = self._read_blocks()
        pairs = self._multiply()
        _require_unique(pairs)
        left_out = self._leave_out([cell for cell, _ in pairs])
        every = self._apply_runs(self._apply_gpu(cell for cell, _ in pairs))
        cells = tuple(cell for cell in every if cell.id not in self._gone)
        wheres = {cell.id: where for cell, where in pairs}
        for cell in cells:
            self._require_kind(cell, wheres[cell.id])
            require_source(cell, sources, wheres[cell.id])
        night = self._read_night()
        return Matrix(
            source=self._name,
            folder=self._path.absolute().parent,
            sha256=hashlib.sha256(self._content).hexdigest(),
            cells=cells,
            product=every,
            axes=self._used(),
            sources=sources,
            left_out=left_out,
            known=night.get("known_problems", ""),
            causes=night.get("causes", ""),
            content=self._content,
            warnings=tuple(self._warnings),
        )

    def _require_kind(self, cell: Cell, where: str) -> None:
        """Raise ProfileError if neither we nor the cell's profile know its kind of package."""
        if cell.kind in KINDS:
            return
        if cell.profile not in self._own_kinds:
            path = cell.profile if is_shipped(cell.profile) else self._path.parent / cell.profile
            kinds = load_profile(str(path)).kinds if cell.profile else ()
            self._own_kinds[cell.profile] = tuple(path.stem for path in kinds)
        known = (*KINDS, *self._own_kinds[cell.profile])
        if cell.kind not in known:
            none = f"{cell.profile} adds no such kind" if cell.profile else "it has no profile"
            raise ProfileError(
                f"{where}: {cell.id}: kind: {cell.kind!r} is not one of: {', '.join(known)}"
                f"{hint(cell.kind, known)} ({none})"
            )

    def _read_night(self) -> dict[str, str]:
        """Return the settings for all cells of a night."""
        where = f"{self._name}: night"
        table = convert(self._tables.get("night", {}), dict, where)
        return convert_table(table, _NIGHT, where)

    def _rows(self, table: str, known: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
        return read_rows(self._tables, self._content, self._name, table, known)

    def _used(self) -> tuple[str, ...]:
        """Return the axes that at least one block names; ids consist of their values."""
        named = {key for row, _ in self._blocks for key in row}
        named |= _split_system(row for row, _ in self._blocks)
        return tuple(axis for axis in AXES if axis in named)

    def _read_blocks(self) -> list[tuple[dict[str, Any], str]]:
        """Return the blocks, with shared lists in place of their names."""
        lists = read_lists(self._tables.get("values", {}), self._name)
        rows = [*self._rows("cells", _BLOCK)]
        for name in sorted(lists.keys() - set().union(*(find_names(row) for row, _ in rows))):
            self._warnings.append(f"{self._name}: values: {name}: no block uses it; remove it")
        return [(put_lists(row, lists, where), where) for row, where in rows]

    def _multiply(self) -> list[tuple[Cell, str]]:
        """Return the cells of all blocks, in the order of the file."""
        if not self._blocks:
            raise ProfileError(f"{self._name}: it has no [[cells]]")
        values = [(_read_axes(row, where), row, where) for row, where in self._blocks]
        if sum(prod(map(len, axes.values())) for axes, _, _ in values) > MOST_CELLS:
            raise ProfileError(f"{self._name}: more than {MOST_CELLS:,} cells")
        used = self._used()
        return [
            (cell, where)
            for axes, row, where in values
            for cell in _make_cells(axes, row, used, where)
        ]

    def _conditions(
        self, table: str, known: Mapping[str, Any]
    ) -> Iterator[tuple[CellCondition, dict[str, Any], str]]:
        for row, where in self._rows(table, known):
            values = convert_table(row, known, where)
            if table == "run":
                values = {"when": "id=*", **values}  # the usual way to run a cell has no condition
            if "when" not in values:
                raise ProfileError(f"{where}: 'when' is missing")
            yield read_condition(values["when"], f"{where}: when"), values, where

    def _leave_out(self, cells: Sequence[Cell]) -> tuple[LeftOut, ...]:
        left: list[LeftOut] = []
        for condition, values, where in self._conditions("leave_out", _LEAVE_OUT):
            if not values.get("reason", "").strip():
                raise ProfileError(f"{where}: 'reason' is missing")
            meant = {cell.id for cell in cells if condition.meets(cell)}
            expires = values.get("expires")
            expired = expires is not None and self._today > expires
            if not meant:
                self._warn(where, condition, "matches no cell; remove it")
            elif expired:
                self._warn(
                    where, condition, f"expired on {expires}: its cells are no longer left out"
                )
            self._gone |= set() if expired else meant
            if len(self._gone) == len(cells):
                raise ProfileError(f"{where}: when = {condition.written!r:.200}: no cell is left")
            left.append(
                LeftOut(
                    when=condition.written,
                    reason=values["reason"],
                    expires=expires.isoformat() if expires else "",
                    cells=len(meant),
                    expired=expired,
                )
            )
        return tuple(left)

    def _warn(self, where: str, condition: CellCondition, fault: str) -> None:
        self._warnings.append(f"{where}: when = {condition.written!r} {fault}")

    def _apply(
        self,
        cells: Iterable[Cell],
        table: str,
        known: Mapping[str, Any],
        change: Callable[[Cell, dict[str, Any]], Cell],
    ) -> tuple[Cell, ...]:
        """Return the cells, changed by the entries that match them; the last entry wins."""
        found = list(cells)
        for condition, values, where in self._conditions(table, known):
            meant = [number for number, cell in enumerate(found) if condition.meets(cell)]
            if all(found[number].id in self._gone for number in meant):
                self._warn(where, condition, "matches no cell; remove it")
            _require_run(values, where)
            for number in meant:
                found[number] = change(found[number], values)
        return tuple(found)

    def _apply_gpu(self, cells: Iterable[Cell]) -> tuple[Cell, ...]:
        return self._apply(cells, "gpu", _GPU, lambda cell, _: replace(cell, gpu=True))

    def _apply_runs(self, cells: Iterable[Cell]) -> tuple[Cell, ...]:
        def change(cell: Cell, row: dict[str, Any]) -> Cell:
            return replace(cell, **{key: row[key] for key in row if key != "when"})

        return self._apply(cells, "run", _RUN, change)


def _split_system(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return {"architecture"} if a system such as ``linux-x86_64`` names one, else set()."""
    named = (value for row in rows for value in listed(row.get("system", ())))
    return {"architecture"} if any("-" in str(value) for value in named) else set()


def _read_axes(row: Mapping[str, Any], where: str) -> dict[str, list[tuple[tuple[str, str], ...]]]:
    """Return axis -> values of a block; a value of system may set two axes."""
    if "project" not in row:
        raise ProfileError(f"{where}: 'project' is missing")
    found = {}
    for axis in AXES:
        if axis not in row:
            continue
        values = listed(row[axis])
        if not values:
            raise ProfileError(f"{where}: {axis}: an empty list makes no cell")
        found[axis] = [_read_value(axis, value, row, f"{where}: {axis}") for value in values]
    return found


def _read_value(
    axis: str, value: Any, row: Mapping[str, Any], where: str
) -> tuple[tuple[str, str], ...]:
    if axis != "system" or not isinstance(value, str) or "-" not in value:
        return ((axis, require_value(axis, value, where)),)
    system, _, architecture = value.partition("-")
    if "architecture" in row:
        raise ProfileError(
            f"{where}: {value!r} names an architecture, but the block also names one"
        )
    parts = ("system", system), ("architecture", architecture)
    return tuple((name, require_value(name, part, where)) for name, part in parts)


def _make_cells(
    axes: Mapping[str, list[tuple[tuple[str, str], ...]]],
    row: Mapping[str, Any],
    used: Sequence[str],
    where: str,
) -> Iterator[Cell]:
    asked = convert(row.get("package", ""), str, f"{where}: package")
    for chosen in product(*axes.values()):
        values: dict[str, Any] = {axis: value for pairs in chosen for axis, value in pairs}
        bare = Cell(id="", package=asked or values["project"], **values)
        own = "-".join(filter(None, (getattr(bare, axis) for axis in used)))
        if len(own) > _LONGEST_ID:
            raise ProfileError(f"{where}: {own}: the id has more than {_LONGEST_ID} characters")
        cell = replace(bare, id=own)
        require_consistent(cell, f"{where}: {own}")
        yield cell


def _require_unique(pairs: Iterable[tuple[Cell, str]]) -> None:
    """Raise ProfileError if two ids are equal or differ only in case."""
    seen: dict[str, str] = {}
    for cell, where in pairs:
        key = cell.id.lower()
        if key in seen:
            before = seen[key].partition(": ")[2]
            there = "in that block twice" if seen[key] == where else f"in {before} already"
            raise ProfileError(f"{where}: {cell.id} is {there}")
        seen[key] = where


def _require_run(row: Mapping[str, Any], where: str) -> None:
    if place := row.get("place", ""):
        try:
            read_place(place)
        except ProfileError as error:
            raise ProfileError(f"{where}: place: {error}") from None
    timeout = row.get("timeout", 1.0)
    if not 0 < timeout <= _MOST_SECONDS:
        raise ProfileError(f"{where}: timeout: {timeout:g} s is not between 0 and 7 days")


# ``[values]``: lists that several blocks share, by name.

TABLE = "values"
_NAMED = re.compile(r"\{([^{}]*)\}")

ValueLists = Mapping[str, tuple[object, ...]]


def read_lists(value: object, name: str) -> ValueLists:
    """Read the lists in ``[values]``. Raises ProfileError."""
    table = convert(value, dict, f"{name}: {TABLE}")
    for key, listed in table.items():
        if not isinstance(listed, list):
            raise ProfileError(f"{name}: {TABLE}: {key}: {listed!r:.40} is not a list")
    return {key: tuple(listed) for key, listed in table.items()}


def put_lists(row: Mapping[str, Any], lists: ValueLists, where: str) -> dict[str, Any]:
    """Return a block with the values of lists in place of their names in braces: ``"{cuda}"``."""
    found = dict(row)
    for axis in AXES:
        if any(_find_name(each) is not None for each in listed(row.get(axis, ()))):
            found[axis] = [
                value
                for each in listed(row[axis])
                for value in _expand(each, lists, f"{where}: {axis}")
            ]
    return found


def listed(value: Any) -> list[Any]:
    """Return the values of an axis as a list; a single value may be written without brackets."""
    return [*value] if isinstance(value, (list, tuple)) else [value]


def find_names(row: Mapping[str, Any]) -> set[str]:
    """Return the names of the lists that a block uses."""
    names = (_find_name(each) for axis in AXES for each in listed(row.get(axis, ())))
    return {name for name in names if name is not None}


def _find_name(value: object) -> str | None:
    found = _NAMED.fullmatch(value) if isinstance(value, str) else None
    return found[1] if found else None


def _expand(value: object, lists: ValueLists, where: str) -> tuple[object, ...]:
    name = _find_name(value)
    if name is None:
        return (value,)
    reject_unknown([name], dict.fromkeys(lists), where, f"list of [{TABLE}]")
    return lists[name]


# ``[sources.NAME]``: where cells are published, and whether a cell fits its source.

_KEYS = {key: kind for key, kind in typing.get_type_hints(CellSource).items() if key != "name"}
_PLACES = ("index", "folder", "url", "conda")
_BRACES = re.compile(r"\{([^{}]*)\}")
_VALUES = {axis: axis for axis in (*AXES, "package")}
_FILES = (".whl", ".conda", ".tar.bz2", ".zip")


def read_sources(value: object, name: str) -> dict[str, CellSource]:
    """Read the tables ``[sources.NAME]``. Raises ProfileError."""
    tables = convert(value, dict, f"{name}: sources")
    return {key: _read_source(key, row, f"{name}: sources.{key}") for key, row in tables.items()}


def _read_source(name: str, row: object, where: str) -> CellSource:
    require_value("source", name, where)
    if not isinstance(row, dict):
        raise ProfileError(f"{where}: not a table; write [sources.{name}]")
    values = convert_table(row, _KEYS, where)
    given = [key for key in _PLACES if key in values]
    if len(given) > 1:
        raise ProfileError(f"{where}: {given[0]} and {given[1]}: give only one of them")
    for key in given:
        require_public(values[key], f"{where}: {key}")
        _require_template(values[key], f"{where}: {key}")
    if values.get("freshness", 0) < 0:
        raise ProfileError(f"{where}: freshness: {values['freshness']} is not a number of days")
    return CellSource(name=name, **values)


def _require_template(template: str, where: str) -> None:
    if not template:
        raise ProfileError(f"{where}: it is empty")
    reject_unknown(_BRACES.findall(template), _VALUES, where, "axis")
    if {"{", "}"} & set(_BRACES.sub("", template)):
        raise ProfileError(f"{where}: {template!r:.100} has an unmatched brace")


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
        reject_unknown([cell.source], {name: name for name in sources}, where, "source")
    if names_file(cell.package):
        require_public(cell.package, f"{where}: package")
        return
    source = sources.get(cell.source, PIPS_INDEX)
    for key in _PLACES:
        fill(getattr(source, key), cell, f"{where}: sources.{source.name}: {key}")
    if cell.kind == "conda" and not (source.conda or source.folder or source.url):
        raise ProfileError(f"{where}: kind is 'conda', but its source is not a conda channel")
    if cell.kind != "conda" and source.conda:
        raise ProfileError(f"{where}: kind is {cell.kind!r}, but its source is a conda channel")
    if cell.kind not in ("wheel", "conda") and not (source.url or source.folder):
        raise ProfileError(
            f"{where}: kind is {cell.kind!r}, but its source has neither url nor folder"
        )
    if source.url:
        return
    if cell.kind in ("wheel", "conda") and bool(cell.system) is not bool(cell.python):
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


def fill(template: str, cell: Cell, where: str) -> str:
    """Return a source's template with the cell's values. Raises ProfileError if one is missing."""

    def value(found: re.Match[str]) -> str:
        text: str = getattr(cell, found[1])
        if not text:
            raise ProfileError(f"{where}: {{{found[1]}}} has no value in this cell")
        return text

    return _BRACES.sub(value, template)


# Arrays of tables, each table with its location for messages.

_MOST_ROWS = 1_000  # of one kind, because each is compared with every cell


def read_rows(
    tables: Mapping[str, Any], content: bytes, name: str, table: str, known: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the tables ``[[table]]`` of a file with their locations. Raises ProfileError.

    ``tables`` contains the array: the whole file, or the table before the last dot.
    """
    rows = tables.get(table.rpartition(".")[2], [])
    if not isinstance(rows, list):
        raise ProfileError(f"{name}: {table}: write [[{table}]], with two brackets")
    if len(rows) > _MOST_ROWS:
        raise ProfileError(f"{name}: {table}: more than {_MOST_ROWS:,} tables")
    lines = _find_lines(content, table, len(rows))
    for index, row in enumerate(rows):
        where = f"{name}: {table}[{index}]{lines[index]}"
        if not isinstance(row, dict):
            raise ProfileError(f"{where}: not a table")
        reject_unknown(row, known, where, "key")
        yield row, where


def _find_lines(content: bytes, table: str, count: int) -> list[str]:
    """Return " (line 12)" for each table, or "" for all of them if a table has no header."""
    header = re.compile(rf"[ \t]*\[\[[ \t]*{re.escape(table)}[ \t]*\]\]")
    text = content.decode("utf-8").splitlines()
    found = [number for number, line in enumerate(text, 1) if header.match(line)]
    return [f" (line {number})" for number in found] if len(found) == count else [""] * count
