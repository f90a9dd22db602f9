"""Reads the texts in ``*.dist-info``: what cannot be read becomes a fault, never an error."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from email.parser import HeaderParser
from typing import NamedTuple

from binary_checks.model.packages import RecordRow
from binary_checks.trees.members import MAXIMUM_ENTRIES

Headers = tuple[tuple[str, str], ...]
Faults = tuple[str, ...]

_MIB = 1 << 20
LONGEST = {"METADATA": 4 * _MIB, "WHEEL": _MIB, "RECORD": 32 * _MIB, "entry_points.txt": _MIB}
"""The most bytes of each that are read: parsed, a header of five bytes takes two hundred."""


class Texts(NamedTuple):
    """What the texts say that tell of a distribution, and what is wrong with each."""

    metadata: Headers
    wheel: Headers
    record: tuple[RecordRow, ...] | None
    record_faults: Faults
    entry_points: tuple[tuple[str, str, str], ...]
    faults: Mapping[str, Faults]  # of the others, by the name of the file


def read_texts(contents: Mapping[str, bytes | None]) -> Texts:
    """Read those of them that there are, by their names in the folder."""
    metadata, metadata_faults = read_headers(contents.get("METADATA") or b"")
    wheel, wheel_faults = read_headers(contents.get("WHEEL") or b"")
    record, record_faults = read_record(contents.get("RECORD"))
    points, point_faults = read_entry_points(contents.get("entry_points.txt") or b"")
    faults = {"METADATA": metadata_faults, "WHEEL": wheel_faults, "entry_points.txt": point_faults}
    return Texts(metadata, wheel, record, record_faults, points, faults)


def _decode(content: bytes) -> tuple[str, Faults]:
    try:
        return content.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        fault = f"it is not valid UTF-8 (at byte {error.start:#x})"
        return content.decode(errors="replace"), (fault,)


def read_headers(content: bytes) -> tuple[Headers, Faults]:
    """Read METADATA or WHEEL, which have the form of an e-mail's header."""
    text, faults = _decode(content)
    message = HeaderParser().parsestr(text)
    defects = (f"its headers are broken: {type(defect).__name__}" for defect in message.defects)
    headers = tuple((key, str(value).strip()) for key, value in message.items())
    return headers, (*faults, *dict.fromkeys(defects))


def read_record(content: bytes | None) -> tuple[tuple[RecordRow, ...] | None, Faults]:
    """Read RECORD: CSV with path, hash and size."""
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
                wrong.append(f"line {table.line_num}: more than {len(rows)} rows are not read")
                break
            row = _make_row(columns)
            rows.append(row)
            if row.size is None or len(columns) != 3:
                wrong.extend(_judge_columns(table.line_num, columns))
    except csv.Error as error:
        wrong.append(f"line {table.line_num}: not CSV, the rest is not read: {error}")
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
    if not text:
        return (), faults
    import configparser  # many wheels have no entry points

    parser = configparser.RawConfigParser(delimiters=("=",), default_section="\0")
    parser.optionxform = str  # type: ignore[method-assign, assignment]
    try:
        parser.read_string(text)
    except configparser.Error as error:
        reason = re.sub(r"\s+", " ", error.message.replace("'<string>'", "it"))
        return (), (*faults, f"it cannot be read: {reason}")
    groups = ((group, parser.items(group)) for group in parser.sections())
    found = ((group, name, value) for group, items in groups for name, value in items)
    return tuple(found), faults
