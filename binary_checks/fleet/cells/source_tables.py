"""Reads the sources of a matrix, and holds each cell against the one where it is published."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping

from packaging.requirements import InvalidRequirement, Requirement

from binary_checks.errors import ProfileError
from binary_checks.fleet.cell import AXES, Cell
from binary_checks.fleet.cells.axis_values import demand_value
from binary_checks.fleet.cells.matrix import PIPS_INDEX, CellSource
from binary_checks.profile.toml_values import convert, reject_unknown

_KEYS = {key: kind for key, kind in typing.get_type_hints(CellSource).items() if key != "name"}
_PLACES = ("index", "folder", "url", "conda")
_BRACES = re.compile(r"\{([^{}]*)\}")
_VALUES = {axis: axis for axis in (*AXES, "package")}
_FILES = (".whl", ".conda", ".tar.bz2", ".zip")


def read_sources(value: object, name: str) -> dict[str, CellSource]:
    """The tables ``[sources.NAME]`` of the file of that name. Raises ProfileError."""
    tables = convert(value, dict, f"{name}: sources")
    return {key: _read_source(key, row, f"{name}: sources.{key}") for key, row in tables.items()}


def _read_source(name: str, row: object, where: str) -> CellSource:
    demand_value("source", name, where)
    if not isinstance(row, dict):
        raise ProfileError(f"{where}: not a table; write [sources.{name}]")
    reject_unknown(row, _KEYS, where, "key")
    said = {key: convert(row[key], _KEYS[key], f"{where}: {key}") for key in row}
    given = [key for key in _PLACES if key in said]
    if len(given) > 1:
        raise ProfileError(f"{where}: {given[0]} and {given[1]}: name one of them")
    for key in given:
        demand_public(said[key], f"{where}: {key}")
        _demand_template(said[key], f"{where}: {key}")
    if said.get("freshness", 0) < 0:
        raise ProfileError(f"{where}: freshness: {said['freshness']} is no number of days")
    return CellSource(name=name, **said)


def _demand_template(template: str, where: str) -> None:
    if not template:
        raise ProfileError(f"{where}: it is empty")
    reject_unknown(_BRACES.findall(template), _VALUES, where, "axis")
    if {"{", "}"} & set(_BRACES.sub("", template)):
        raise ProfileError(f"{where}: {template!r:.100} has a brace without its other one")


def demand_public(text: str, where: str) -> None:
    """Raise ProfileError for an address that shows a secret: this file is for everybody to read."""
    from binary_checks.web.addresses import show

    bare = text.partition("#")[0]
    if "://" in bare and show(bare) != bare:
        said = "credentials, a token or a query, which may be secret; a netrc has room for them"
        raise ProfileError(f"{where}: {show(bare)} has {said}")


def names_file(package: str) -> bool:
    """Whether a cell's package is a file itself, by URL or path, which no source is asked for."""
    return "://" in package or "/" in package or package.lower().endswith(_FILES)


def demand_source(cell: Cell, sources: Mapping[str, CellSource], where: str) -> None:
    """Raise ProfileError where a cell's source is not there, or cannot have what it asks for."""
    where = f"{where}: {cell.id}"
    if cell.source:
        reject_unknown([cell.source], {name: name for name in sources}, where, "source")
    if names_file(cell.package):
        demand_public(cell.package, f"{where}: package")
        return
    source = sources.get(cell.source, PIPS_INDEX)
    for key in _PLACES:
        fill(getattr(source, key), cell, f"{where}: sources.{source.name}: {key}")
    if cell.kind == "conda" and not (source.conda or source.folder or source.url):
        raise ProfileError(f"{where}: kind is 'conda', and its source names no conda channel")
    if cell.kind != "conda" and source.conda:
        raise ProfileError(f"{where}: kind is {cell.kind!r}, and its source is one of conda's")
    if cell.kind == "libtorch" and not (source.url or source.folder):
        raise ProfileError(f"{where}: kind is 'libtorch', and its source has no url, nor a folder")
    if source.url:
        return
    if cell.kind != "libtorch" and bool(cell.system) is not bool(cell.python):
        lacking = "system" if cell.python else "python"
        raise ProfileError(f"{where}: it has no {lacking}, by which its file is chosen")
    if cell.kind == "wheel":
        _demand_requirement(cell.package, where)


def _demand_requirement(text: str, where: str) -> None:
    try:
        wanted = Requirement(text)
    except (InvalidRequirement, ValueError):
        raise ProfileError(f"{where}: package: {text!r:.100} is not a requirement") from None
    if wanted.url is not None or wanted.marker is not None:
        raise ProfileError(f"{where}: package: {text!r:.100} has a URL or a marker; leave it out")


def fill(template: str, cell: Cell, where: str) -> str:
    """A source's template with the cell's values. Raises ProfileError for an axis it lacks."""

    def value(found: re.Match[str]) -> str:
        text: str = getattr(cell, found[1])
        if not text:
            raise ProfileError(f"{where}: {{{found[1]}}} has no value in this cell")
        return text

    return _BRACES.sub(value, template)
