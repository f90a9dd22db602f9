"""Reads the facts of a package back from the JSON that ``inspect`` wrote: strictly, row by row."""

from __future__ import annotations

import gzip
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from sys import intern
from typing import IO, Any

from binary_checks import __version__
from binary_checks.documents.decoding import (
    OddityError,
    decode_fields,
    decode_symbols,
    demand_keys,
    read_json,
    record_decoder,
)
from binary_checks.errors import ProfileError
from binary_checks.model import (
    DeviceFile,
    Distribution,
    Edge,
    MalformedObject,
    Member,
    ObjectFile,
    Package,
    RecordRow,
    StaticArchive,
    SymbolTable,
    UnknownSymbols,
    UnreadObject,
    hash_record,
)
from binary_checks.model.binary_configuration import BinaryConfiguration
from binary_checks.model.linking import LinkedLibraries
from binary_checks.model.objects import object_kinds
from binary_checks.model.packages import package_kinds

SCHEMA = "binary-checks/facts/2"
_BEFORE = "binary-checks/facts/1"
WRITER = f"binary-checks {__version__}"
LEFT_OUT = frozenset({"objects", "malformed", "unread", "members", "path", "record"})
"""Fields of a package that have a place of their own in the document, or none."""

_LARGEST = 1 << 30  # bytes of a document
_LONGEST = 256 << 20  # bytes of one row: all symbols of one library
_HEADS = ("schema", "written_by", "symbols", "configuration", "linked_libraries", "package")
DERIVED: Mapping[str, type] = {
    "configuration": BinaryConfiguration,
    "linked_libraries": LinkedLibraries,
}
"""Facts that a run derives anew from the rest."""
OPTIONAL = frozenset({"record", "device_details", "device_kernels"})
KERNELS = frozenset({"kernels"})
"""Of the details of one object, what stands in a table of its own."""
_TABLES = (
    "object_files",
    "malformed_objects",
    "unread_objects",
    "members",
    "record",
    "device_details",
    "device_kernels",
    "linkage",
)
_WITHOUT_SYMBOLS = (StaticArchive, DeviceFile)
_DIGEST = re.compile("[0-9a-f]{64}")
_EDGE = ("path", "architecture", "needed", "resolved", "rule")
DOUBTS = ("weak", "delayed", "unknown", "partly", "may_come_with")
"""What a row of the linkage has besides, where it is not at its default."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """What a document says, and of which package."""

    sha256: str  # of the package file
    record_sha256: str  # of a package that has a RECORD, else ""
    package: Package  # its path is the file's name alone
    edges: tuple[Edge, ...] = ()  # of its linkage, where they were asked for
    configuration: BinaryConfiguration | None = None  # as it was then; a run derives it anew
    linked_libraries: LinkedLibraries | None = None  # likewise
    symbols: bool = True  # whether it has those of the objects
    written_by: str = WRITER


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedFacts:
    """What of a document is wanted, and how it is kept."""

    edges: bool = False  # of its linkage: a run simulates the loader anew and needs none
    record: bool = True  # and that its hash is the one stated
    any_writer: bool = False  # also facts that an earlier version wrote, which may lack some
    keep_symbols: Callable[[Any], SymbolTable] = decode_symbols


_FOR_A_RUN = WantedFacts()


def restore(
    path: Path, *, edges: bool = False, named: str = "", reading: WantedFacts = _FOR_A_RUN
) -> Statement:
    """Read a document that ``inspect`` wrote, with the edges of its linkage or without.

    Raises ProfileError, one line with the file's name or as it was ``named``, for whatever is not
    as it is written.
    """
    named = named or path.name
    reading = replace(reading, edges=edges or reading.edges)
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise OddityError("not a regular file")
            if found.st_size > _LARGEST:
                raise OddityError(f"{found.st_size} bytes; no more than {_LARGEST} are read")
            if path.suffix != ".gz":
                return _restore(_Rows(file), reading)
            with gzip.open(file) as inflated:
                return _restore(_Rows(inflated), reading)
    except OddityError as error:
        raise ProfileError(f"{named}: {error}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ProfileError(f"{named}: not whole, or no gzip: {error}") from None
    except OSError as error:
        raise ProfileError(f"{named}: cannot be read: {error.strerror}") from None


class _Rows:
    """The lines of a document, and how far they have been read."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile) -> None:
        self._file = file
        self._left = _LARGEST
        self.number = 0
        self.closing = "],"  # how the last table ended: all but one are followed by another

    def next(self) -> str:
        """The next line without its end; "" behind the last."""
        self.number += 1
        line = self._file.readline(min(_LONGEST, self._left))
        self._left -= len(line)
        if line and not line.endswith(b"\n"):
            raise OddityError(f"line {self.number}: cut off, or longer than {_LONGEST} bytes")
        try:
            return line.decode("ascii").rstrip("\r\n")
        except UnicodeDecodeError:
            raise OddityError(f"line {self.number}: not ASCII, as inspect writes it") from None

    def until_end(self, parse: Callable[[Any], Any] | None) -> Iterator[Any]:
        """Decode each row of a table; commas stand between rows and nowhere else, as in JSON.

        Rows that nobody wants, without ``parse``, are passed over.
        """
        follows = None  # whether the row before says that there is another
        while not (line := self.next()).startswith("]"):
            if follows is False:
                raise OddityError(f"line {self.number}: no comma before it")
            follows = line.endswith(",")
            if parse is None:
                continue
            try:
                yield parse(read_json(line.removesuffix(",")))
            except OddityError as error:
                raise OddityError(f"line {self.number}: {error}") from None
        if follows:
            raise OddityError(f"line {self.number}: no row follows the comma")
        self.closing = line


def _restore(rows: _Rows, reading: WantedFacts) -> Statement:
    if rows.next() != "{":
        raise OddityError("not the facts of a package, as `binary-checks inspect` writes them")
    heads = _read_heads(rows, any_writer=reading.any_writer)
    tables: dict[str, Any] = dict.fromkeys(_TABLES)
    parsers = _make_parsers(reading, symbols=heads["symbols"])
    while (line := rows.next()) != "}":
        name = next((name for name in _TABLES if line == f'"{name}": ['), None)
        if name is None or tables[name] is not None or rows.closing != "],":
            raise OddityError(f"line {rows.number}: an unknown table, or one that was already read")
        tables[name] = tuple(rows.until_end(parsers[name]))
    if rows.closing != "]":
        raise OddityError(f"line {rows.number}: a comma before the end, or no table")
    if rows.next():
        raise OddityError(f"line {rows.number}: something follows the end")
    for name in _TABLES:
        if tables[name] is None and name not in OPTIONAL:
            raise OddityError(f"no table {name!r}")
    derived = {name: _restore_derived(name, heads[name]) for name in DERIVED}
    statement = _assemble(heads["package"], tables, record=reading.record)
    about = {"symbols": heads["symbols"], "written_by": heads["written_by"]}
    return replace(statement, **about, **derived)


def _restore_derived(name: str, row: Any) -> Any:
    """What was derived from the rest; None where it was not."""
    if row is None:
        return None
    try:
        return record_decoder(DERIVED[name])(row)
    except OddityError as error:
        raise OddityError(f"{name}: {error}") from None


def _read_heads(rows: _Rows, *, any_writer: bool) -> dict[str, Any]:
    heads: dict[str, Any] = {}
    for name in _HEADS:
        line = rows.next()
        if not line.endswith(","):
            raise OddityError(f"line {rows.number}: no comma at its end")
        try:
            heads.update(demand_keys(read_json(f"{{{line.removesuffix(',')}}}"), (name,), (name,)))
        except OddityError as error:
            raise OddityError(f"line {rows.number}: {error}") from None
        if name == "schema" and heads[name] == _BEFORE:
            raise OddityError(
                f"its schema is {_BEFORE}, whose paths count from site-packages: write the facts "
                "again with `binary-checks inspect PACKAGE --json`"
            )
        if name == "schema" and heads[name] != SCHEMA:
            raise OddityError(f"its schema is {heads[name]!r:.80}, not {SCHEMA!r}")
        if name == "written_by" and heads[name] != WRITER and not any_writer:
            raise OddityError(f"written by {heads[name]!r:.80}, this is {WRITER!r}: inspect again")
    if not isinstance(heads["symbols"], bool):
        raise OddityError("symbols: neither true nor false")
    if not isinstance(heads["written_by"], str):
        raise OddityError("written_by: not a string")
    return heads


def _make_parsers(reading: WantedFacts, *, symbols: bool) -> dict[str, Callable[[Any], Any] | None]:
    return {
        "object_files": lambda row: _restore_object(row, reading, symbols=symbols),
        "malformed_objects": record_decoder(MalformedObject),
        "unread_objects": record_decoder(UnreadObject),
        "members": _restore_member,
        "record": record_decoder(RecordRow) if reading.record else None,
        "device_details": None,  # a run that asks for them reads them anew
        "device_kernels": None,
        "linkage": _restore_edge if reading.edges else _demand_edge,
    }


def _demand_edge(row: Any) -> None:
    demand_keys(row, (*_EDGE, *DOUBTS), _EDGE)


def _restore_edge(row: Any) -> Edge:
    _demand_edge(row)
    # A package of 800 libraries that each need all others has 640,000 rows of 800 names.
    shared = {key: intern(value) if isinstance(value, str) else value for key, value in row.items()}
    edge: Edge = record_decoder(Edge)(shared)
    return edge


def _restore_member(row: Any) -> Member:
    member: Member = record_decoder(Member)(row)
    if member.sha256 and not _DIGEST.fullmatch(member.sha256):
        raise OddityError("sha256: not the 64 hexadecimal digits of a digest")
    return member


def _restore_object(row: Any, reading: WantedFacts, *, symbols: bool) -> ObjectFile:
    if not isinstance(row, dict) or not isinstance(row.get("format"), str):
        raise OddityError("an object file without a format")
    kind = object_kinds().get(row["format"])
    if kind is None:
        raise OddityError(f"unknown format {row['format']!r:.40}")
    tables: dict[str, Any] = _restore_symbols(row, kind, reading, symbols=symbols)
    others = {key: value for key, value in row.items() if key not in {"format", *tables}}
    return kind(**decode_fields(kind, others, frozenset({"imports", "exports"})), **tables)


def _restore_symbols(
    row: dict[str, Any], kind: type[ObjectFile], reading: WantedFacts, *, symbols: bool
) -> dict[str, SymbolTable]:
    named = [name for name in ("imports", "exports") if name in row]
    if symbols:
        return {name: reading.keep_symbols(row[name]) for name in named}
    if named:
        raise OddityError("symbols, although it says that it has none")
    unknown = UnknownSymbols("the facts were written without symbols (--no-symbols)")
    return {} if issubclass(kind, _WITHOUT_SYMBOLS) else {"imports": unknown, "exports": unknown}


def _assemble(about: Any, tables: dict[str, Any], *, record: bool) -> Statement:
    if not isinstance(about, dict):
        raise OddityError("package: not an object")
    about = dict(about)
    name, sha256, stated = (_take(about, key) for key in ("file_name", "sha256", "kind"))
    kind = package_kinds().get(stated)
    if kind is None:
        known = ", ".join(sorted(package_kinds()))
        raise OddityError(f"package: its kind {stated!r:.40} is not one of {known}")
    record_sha256 = _take(about, "record_sha256") if issubclass(kind, Distribution) else ""
    if lacking := {"name", "version", "layout", "claims"} - set(about):
        raise OddityError(f"package: no field {min(lacking)!r}")
    package = _decode_package(kind, about, Path(name), tables)
    if isinstance(package, Distribution):
        stated_rows = package.record or ()
        if record and hash_record(package.dist_info, stated_rows) != record_sha256:
            raise OddityError("package: record_sha256 is not that of its record")
    elif tables["record"] is not None:
        raise OddityError(f"a table 'record', which no {stated} has")
    edges = tuple(edge for edge in tables["linkage"] if edge is not None)
    return Statement(sha256=sha256, record_sha256=record_sha256, package=package, edges=edges)


def _take(about: dict[str, Any], key: str) -> str:
    value = about.pop(key, None)
    if not isinstance(value, str):
        raise OddityError(f"package: {key} is missing, or not a string")
    return value


def _decode_package(
    kind: type[Package], about: dict[str, Any], path: Path, tables: dict[str, Any]
) -> Package:
    try:
        stated = decode_fields(kind, about, LEFT_OUT)
    except OddityError as error:
        raise OddityError(f"package: {error}") from None
    if issubclass(kind, Distribution):
        stated["record"] = tables["record"]
    return kind(
        **stated,
        path=path,
        objects=tables["object_files"],
        malformed=tables["malformed_objects"],
        unread=tables["unread_objects"],
        members=tables["members"],
    )
