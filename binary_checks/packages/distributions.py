"""Distributions, which are wheels and installed packages: members and metadata."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from email.parser import HeaderParser
from typing import Any, NamedTuple, TypeVar

from packaging.tags import Tag

from binary_checks.errors import PackageError
from binary_checks.knowledge.tags import read_claims
from binary_checks.model import (
    Distribution,
    Layout,
    MalformedObject,
    ObjectFile,
    ObjectReader,
    Progress,
    ReadObject,
    RecordRow,
    StaticArchive,
    Tree,
    UnreadObject,
    Visited,
    VisitRequest,
    format_of_name,
)
from binary_checks.python_code.dll_directories import DllLoading, LoadingSearch
from binary_checks.safe_text import elide
from binary_checks.trees.members import MAXIMUM_ENTRIES

DIST_INFO = ".dist-info"
_TEST_FOLDER = re.compile(r"(?i)(?:.*[-_.])?test(?:s|ing|data|cases)?(?:[-_.].*)?")
_OF_OBJECTS = (".o", ".obj", ".a", ".lib", ".exe", ".cubin", ".fatbin")
_WINDOWS = frozenset({"win32", "win_amd64", "win_arm64"})


class InstallTarget(NamedTuple):
    """The tags of a distribution, and the layout of the prefix in which it is installed."""

    layout: Layout
    tags: tuple[Tag, ...]


class ReadMembers(NamedTuple):
    """The result of one pass over the members of a package."""

    visited: list[Visited]
    loading: DllLoading


def read_members(
    tree: Tree,
    reader: ObjectReader,
    wanted: VisitRequest,
    landing: InstallTarget,
    progress: Progress | None,
) -> ReadMembers:
    """Read every member once, and find out how code of a package for Windows loads its DLLs."""
    if _WINDOWS.isdisjoint(tag.platform for tag in landing.tags):
        return ReadMembers(tree.visit(reader, wanted, progress), DllLoading())
    search = LoadingSearch()
    wanted = replace(wanted, watches=(*wanted.watches, search.watch))
    visited = tree.visit(reader, wanted, progress)
    return ReadMembers(visited, search.conclude(each.member for each in visited))


_Distribution = TypeVar("_Distribution", bound=Distribution)


def assemble(
    kind: type[_Distribution],
    reading: ReadMembers,
    texts: Texts,
    *,
    version: str,
    tags: tuple[Tag, ...],
    **own: Any,
) -> _Distribution:
    """Return a distribution of that class; ``own`` are the fields that only this class has."""
    found = [item for each in reading.visited for item in each.objects]
    return kind(
        version=version,
        tags=tags,
        claims=read_claims(tags, version=version, metadata=texts.metadata),
        members=tuple(each.member for each in reading.visited),
        **sort_objects(found),
        dll_directories=reading.loading.dll_directories,
        loading_code=reading.loading.loading_code,
        metadata=texts.metadata,
        wheel=texts.wheel,
        record=texts.record,
        record_faults=texts.record_faults,
        entry_points=texts.entry_points,
        **own,
    )


def sort_objects(found: Iterable[ReadObject]) -> dict[str, Any]:
    """Return the fields of a package for its objects, sorted by path, without plain archives.

    Malformed objects that are data for tests are listed only by their paths.
    """
    own = sorted(found, key=lambda item: item.path)
    malformed = [item for item in own if isinstance(item, MalformedObject)]
    return {
        "objects": tuple(
            item
            for item in own
            if isinstance(item, ObjectFile)
            and not (isinstance(item, StaticArchive) and item.is_plain)
        ),
        "malformed": tuple(item for item in malformed if not _is_test_data(item)),
        "test_data": tuple(item.path for item in malformed if _is_test_data(item)),
        "unread": tuple(item for item in own if isinstance(item, UnreadObject)),
    }


def _is_test_data(item: MalformedObject) -> bool:
    """Whether nothing but a test can open the file, by its folder and its name.

    A broken file with the name of a library or of a linker's input is a fault anywhere.
    """
    *folders, name = item.path.split("/")
    named = format_of_name(name) is not None or name.lower().endswith(_OF_OBJECTS)
    return any(map(_TEST_FOLDER.fullmatch, folders)) and not named


# Texts in ``*.dist-info``. If a text cannot be read, this is a fault, never an error.

Headers = tuple[tuple[str, str], ...]
Faults = tuple[str, ...]

_MIB = 1 << 20
LONGEST = {"METADATA": 4 * _MIB, "WHEEL": _MIB, "RECORD": 32 * _MIB, "entry_points.txt": _MIB}
"""Bytes of each text that are read. A header of five bytes takes two hundred once it is parsed."""


class Texts(NamedTuple):
    """The values of the texts in ``*.dist-info``, with the faults of each text."""

    metadata: Headers
    wheel: Headers
    record: tuple[RecordRow, ...] | None
    record_faults: Faults
    entry_points: tuple[tuple[str, str, str], ...]
    faults: Mapping[str, Faults]  # of METADATA, WHEEL and entry_points.txt, by file name


def read_text(tree: Tree, path: str, most: int) -> bytes | None:
    """Read one member before all others; return None if it is missing, broken or too large."""
    entry = tree.find(path)
    if entry is None or entry.faults or entry.size > most:
        return None
    try:
        return b"".join(tree.pieces(entry))
    except PackageError:
        return None


def read_texts(contents: Mapping[str, bytes | None]) -> Texts:
    """Read the given texts; the keys of ``contents`` are names in the folder."""
    metadata, metadata_faults = read_headers(contents.get("METADATA") or b"")
    # tags-disagree reports a line break in a field
    wheel, wheel_faults = read_headers(contents.get("WHEEL") or b"", blanks=" \t\r")
    record, record_faults = read_record(contents.get("RECORD"))
    points, point_faults = read_entry_points(contents.get("entry_points.txt") or b"")
    faults = {"METADATA": metadata_faults, "WHEEL": wheel_faults, "entry_points.txt": point_faults}
    return Texts(metadata, wheel, record, record_faults, points, faults)


def _judge_start(content: bytes, effect: str) -> Faults:
    """Report a byte order mark, which this reader skips; in RECORD it does no harm."""
    if content.startswith(codecs.BOM_UTF8):
        return (f"it begins with a byte order mark: {effect}",)
    return ()


def _decode(content: bytes) -> tuple[str, Faults]:
    try:
        return content.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        fault = f"it is not valid UTF-8 (at byte {error.start:#x})"
        return content.decode(errors="replace"), (fault,)


def read_headers(content: bytes, blanks: str | None = None) -> tuple[Headers, Faults]:
    """Read METADATA or WHEEL, which have the format of e-mail headers.

    ``blanks`` are removed from both ends of a value; None: all blanks.
    """
    text, faults = _decode(content)
    # "Core metadata specifications": not an RFC of e-mail counts, but what email.parser reads with
    # the policy compat32, which is the default of HeaderParser.
    message = HeaderParser().parsestr(text)
    defects = (f"its headers are broken: {type(defect).__name__}" for defect in message.defects)
    headers = tuple((key, str(value).strip(blanks)) for key, value in message.items())
    mark = _judge_start(content, "pip and uv do not find its first field")
    return headers, (*mark, *faults, *dict.fromkeys(defects))


def read_record(content: bytes | None) -> tuple[tuple[RecordRow, ...] | None, Faults]:
    """Read RECORD, a CSV file with path, hash and size.

    See "The RECORD file" in the specification "Recording installed projects".
    """
    if content is None:
        return None, ()
    text, faults = _decode(content)
    rows: list[RecordRow] = []
    wrong: list[str] = []
    table = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for columns in table:
            if not columns:
                continue
            if len(rows) == MAXIMUM_ENTRIES:
                wrong.append(f"line {table.line_num}: only {len(rows)} rows are read")
                break
            row = _make_row(columns)
            rows.append(row)
            if row.size is None or len(columns) != 3:
                wrong.extend(_judge_columns(table.line_num, columns))
    except csv.Error as error:
        wrong.append(
            f"line {table.line_num}: not CSV, so the lines from here on are not read: {error}"
        )
    return tuple(rows), (*faults, *wrong)


def _make_row(columns: list[str]) -> RecordRow:
    path, signature, size = columns if len(columns) == 3 else [*columns, "", ""][:3]
    known = size.isascii() and size.isdigit() and len(size) < 20
    return RecordRow(path=path, hash=signature, size=int(size) if known else None)


def _judge_columns(line: int, columns: list[str]) -> Iterator[str]:
    if len(columns) != 3:
        yield f"line {line}: {len(columns)} columns instead of three"
    elif columns[2] and _make_row(columns).size is None:
        yield f"line {line}: the size {columns[2][:40]!r} is not a number"


def read_entry_points(content: bytes) -> tuple[tuple[tuple[str, str, str], ...], Faults]:
    """Read entry_points.txt: groups of ``name = object reference``."""
    text, faults = _decode(content)
    faults = (*_judge_start(content, "uv refuses to install the wheel"), *faults)
    try:
        return tuple(_read_groups(text)), faults
    except _GroupError as error:
        return (), (*faults, f"it cannot be read: {error}")


class _GroupError(Exception):
    """A line that configparser also rejects."""


def _read_groups(text: str) -> list[tuple[str, str, str]]:
    """Read entry_points.txt (entry points specification, "File format").

    Accept the syntax of configparser with case-sensitive names and ``=`` as the only delimiter, but
    take linear time. The regular expressions of configparser take quadratic time in the blanks of a
    line, and its list of errors takes quadratic time in the number of lines.
    """
    groups: dict[str, dict[str, list[str]]] = {}
    group = values = None
    depth = 0  # indent of the last key; deeper lines continue its value
    for number, line in enumerate(text.split("\n"), 1):
        value = line.strip()
        if value.startswith(("#", ";")):
            continue
        indent = len(line) - len(line.lstrip())
        if values is not None and (not value or indent > depth):
            values.append(value)
        elif value:
            depth = indent
            header, close, _ = value[1:].rpartition("]")
            if value[0] == "[" and close and header:
                if header in groups:
                    raise _GroupError(f"line {number}: the group {elide(header)!r} occurs twice")
                group, values = groups.setdefault(header, {}), None
                continue
            values = _begin_value(value, group, number)
    return [
        (header, name, "\n".join(lines).rstrip())
        for header, items in groups.items()
        for name, lines in items.items()
    ]


def _begin_value(value: str, group: dict[str, list[str]] | None, number: int) -> list[str]:
    """Parse a line that begins a value; return the list that collects the value's lines.

    Raises _GroupError.
    """
    name, equals, reference = value.partition("=")
    name = name.rstrip()
    if group is None:
        raise _GroupError(f"line {number} stands before any [group]")
    if not equals or not name:
        raise _GroupError(f"line {number} is neither [group] nor name = reference")
    if name in group:
        raise _GroupError(f"line {number}: the name {elide(name)!r} occurs twice in its group")
    return group.setdefault(name, [reference.strip()])
