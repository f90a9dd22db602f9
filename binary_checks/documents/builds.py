"""Builds to be compared, read from documents, and the document with their differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from sys import intern
from typing import Any

from binary_checks.documents.facts import WRITER, Statement, WantedFacts, restore
from binary_checks.documents.json_schema import describe_document
from binary_checks.documents.json_values import (
    DocumentError,
    dump,
    dump_rows,
    encode,
    encode_fields,
)
from binary_checks.documents.result import read_results
from binary_checks.errors import ProfileError
from binary_checks.model import Build, BuildComparison, Linkage, Package, Symbol, SymbolTable

_FIELDS = frozenset({"name", "library", "version", "weak", "hidden", "ordinal", "forwarder"})


def read_build(path: Path, named: str = "") -> Build:
    """Read a facts document, ``.json`` or ``.json.gz``, also one written by an earlier version.

    Raises ProfileError, one line with the file's name or ``named``.
    """
    reading = WantedFacts(edges=True, record=False, any_writer=True, keep_symbols=StatedSymbols)
    return build_of(restore(path, named=named, reading=reading))


def read_result_build(path: Path, named: str = "") -> Build:
    """Read the only package of a result document as a build: names and verdicts, but no facts.

    Raises ProfileError, one line with the file's name or ``named``.
    """
    named = named or path.name
    run = read_results(path, named)
    if len(run.packages) != 1:
        raise ProfileError(
            f"{named}: results of {len(run.packages)} packages; expected exactly one"
        )
    (package,) = run.packages
    gap = f"only its results are given ({named}): facts of its files are not compared"
    return Build(
        label=package.file_name,
        package=Package(path=Path(package.file_name), name=package.name, version=package.version),
        sha256=package.sha256,
        configuration=package.configuration,
        linked=package.linked_libraries,
        results=package,
        is_known=False,
        gaps=(gap,),
    )


def build_of(statement: Statement) -> Build:
    """Return a facts document as a build to compare."""
    package, edges = statement.package, statement.edges
    return Build(
        label=package.file_name,
        package=package,
        sha256=statement.sha256,
        linkage=None if edges is None else Linkage(target="", layout=package.layout, edges=edges),
        configuration=statement.configuration,
        linked=statement.linked_libraries,
        gaps=tuple(_find_gaps(statement)),
    )


def _find_gaps(statement: Statement) -> Iterator[str]:
    if statement.package.objects and statement.edges is None:
        yield "its facts have no linkage: it is unknown whether libraries are found"
    if statement.written_by != WRITER:
        yield (
            f"its facts were written by {statement.written_by!r:.60}: facts that only {WRITER} "
            "can read are treated as missing"
        )


class StatedSymbols(SymbolTable):
    """The symbols of a document, stored in columns: two builds of torch have half a million."""

    __slots__ = ("_forwarders", "_index", "_libraries", "_names", "_set", "_versions", "_weak")

    def __init__(self, rows: Any) -> None:
        if not isinstance(rows, list):
            raise DocumentError("symbols: not a list")
        for row in rows:
            if not (isinstance(row, dict) and row.keys() <= _FIELDS and "name" in row):
                raise DocumentError("symbols: an invalid row")
        there = frozenset[str]().union(*rows)
        self._names = _column(rows, "name", there)
        self._versions = _column(rows, "version", there)
        self._libraries = _column(rows, "library", there)
        self._forwarders = _column(rows, "forwarder", there)
        self._weak = bytes(row.get("weak") is True for row in rows)
        self._set: frozenset[str] | None = None
        self._index: Mapping[str, list[int]] | None = None

    @property
    def names(self) -> frozenset[str]:
        """The names of all symbols, without duplicates."""
        if self._set is None:
            self._set = frozenset(self._names)
        return self._set

    def each_name(self) -> Iterator[str]:
        """Yield the name of each symbol; a name with several versions is repeated."""
        return iter(self._names)

    def find(self, name: str) -> tuple[Symbol, ...]:
        """Return the symbols of that name, one for each version."""
        if self._index is None:
            index: dict[str, list[int]] = {}
            for place, each in enumerate(self._names):
                index.setdefault(each, []).append(place)
            self._index = index
        return tuple(map(self._make, self._index.get(name, ())))

    def _make(self, place: int) -> Symbol:
        return Symbol(
            name=self._names[place],
            library=self._libraries[place] if self._libraries else "",
            version=self._versions[place] if self._versions else "",
            weak=bool(self._weak[place]),
            forwarder=self._forwarders[place] if self._forwarders else "",
        )

    def __iter__(self) -> Iterator[Symbol]:
        return map(self._make, range(len(self._names)))

    def __len__(self) -> int:
        return len(self._names)


def _column(rows: Iterable[Mapping[str, Any]], key: str, there: frozenset[str]) -> tuple[str, ...]:
    """Return one field of all symbols, with equal strings shared; () if no symbol has the field."""
    if key not in there:
        return ()
    values = [row.get(key, "") for row in rows]
    if not {*map(type, values)} <= {str}:
        raise DocumentError(f"symbols: {key}: not a string")
    return tuple(map(intern, values))


# Writing the differences between two builds as JSON.

DIFF_SCHEMA = "binary-checks/diff/1"
_TABLES = ("lines", "not_compared")


def write_diff(comparison: BuildComparison) -> Iterator[str]:
    """Yield the document in pieces, one row on each line."""
    heads = encode_fields(comparison)
    yield f'{{\n"schema": {dump(DIFF_SCHEMA)}'
    for name in sorted(heads.keys() - {*_TABLES}):
        yield f',\n"{name}": {dump(heads[name])}'
    for name in _TABLES:
        yield f',\n"{name}": ['
        yield from dump_rows(map(encode, getattr(comparison, name)))
        yield "]"
    yield "\n}\n"


def describe_diff() -> dict[str, Any]:
    """Return the JSON Schema of the document, from the types that it is written from."""
    return describe_document(DIFF_SCHEMA, BuildComparison)
