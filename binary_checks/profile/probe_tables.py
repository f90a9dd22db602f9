"""Reads the tables ``[probes.NAME]`` of a profile as the requests that probes and checks take."""

from __future__ import annotations

import os
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from binary_checks.declaring import Check, Gatherer
from binary_checks.errors import ProfileError
from binary_checks.model.requests import REQUESTS, Code, ConsumerRequest, Request
from binary_checks.profile.toml_values import convert, reject_unknown
from binary_checks.regular_files import read_named

_LONGEST_SOURCE = 1 << 20  # bytes of a translation unit


def find_requests(
    declared: Iterable[Check[Any] | Gatherer[..., Any]],
) -> dict[str, type[Request]]:
    """Find every kind of request by its table: those of our own probes, and what these ask for."""
    asked = (kind for each in declared for kinds in each.facts for kind in kinds)
    found = (kind for kind in asked if isinstance(kind, type) and issubclass(kind, Request))
    return {kind.table: kind for kind in (*REQUESTS, *found)}


def read_sources(tables: Mapping[str, Any], folder: Path, where: str) -> dict[str, Any]:
    """The tables with the text of each ``file``, relative to the folder, that stands for a source.

    Raises ProfileError for a file that cannot be read.
    """
    table = tables.get(ConsumerRequest.table)
    units = table.get("units") if isinstance(table, dict) else None
    if not isinstance(table, dict) or not isinstance(units, dict):
        return dict(tables)
    place = f"{where}: probes.{ConsumerRequest.table}.units"
    read = {name: _read_source(unit, folder, f"{place}.{name}") for name, unit in units.items()}
    return {**tables, ConsumerRequest.table: {**table, "units": read}}


def _read_source(unit: Any, folder: Path, where: str) -> Any:
    if not isinstance(unit, dict) or "file" not in unit:
        return unit
    name: str = convert(unit["file"], str, f"{where}.file")
    if "source" in unit:
        raise ProfileError(f"{where}: it has both 'file' and 'source'")
    if os.path.lexists(folder / name) and not (folder / name).is_file():
        raise ProfileError(f"{where}.file: {name}: not a file")  # a pipe would never end
    try:
        content = read_named(folder / name, _LONGEST_SOURCE, f"{where}.file: {name}")
        text = content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ProfileError(f"{where}.file: {name}: not a text file") from None
    return {**{key: value for key, value in unit.items() if key != "file"}, "source": text}


def read_requests(
    tables: Mapping[str, Mapping[str, Any]], known: Mapping[str, type[Request]], where: str
) -> dict[type[Request], Request]:
    """Convert each table to its request. Raises ProfileError for what there is not."""
    reject_unknown(tables, known, f"{where}: probes", "probe")
    return {known[name]: _read(known[name], table, where) for name, table in tables.items()}


def _read(kind: type[Request], table: Mapping[str, Any], where: str) -> Request:
    where = f"{where}: probes.{kind.table}"
    keys = _keys(kind)
    reject_unknown(table, keys, where, "key")
    values = {name: _convert(value, keys[name], f"{where}.{name}") for name, value in table.items()}
    return kind(**values)


def _convert(value: Any, hint: Any, where: str) -> Any:
    """Convert a value; of a mapping to tables with keys of their own, each of them."""
    row = next((each for each in typing.get_args(hint) if is_dataclass(each)), None)
    if row is None or not isinstance(row, type):
        return convert(value, hint, where)
    tables: Mapping[str, Any] = convert(value, Mapping[str, dict[str, Any]], where)
    return {name: _read_row(row, table, f"{where}.{name}") for name, table in tables.items()}


def _read_row(row: type[Any], table: Mapping[str, Any], where: str) -> Any:
    keys = _keys(row)
    reject_unknown(table, keys, where, "key")
    for each in fields(row):
        if each.default is MISSING and each.default_factory is MISSING and each.name not in table:
            raise ProfileError(f"{where}: it has no {each.name!r}")
    return row(**{name: convert(table[name], keys[name], f"{where}.{name}") for name in table})


def list_code(table: str, known: Mapping[str, type[Request]]) -> frozenset[str] | None:
    """List the keys of a table by which something runs; None for a table that nobody knows."""
    if table not in known:
        return None
    keys = _keys(known[table])
    return frozenset(name for name, hint in keys.items() if Code in _flatten(hint))


def _keys(kind: type[Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _flatten(hint: Any) -> Iterator[Any]:
    yield hint
    own = _keys(hint).values() if isinstance(hint, type) and is_dataclass(hint) else ()
    for each in (*typing.get_args(hint), *own):
        yield from _flatten(each)
