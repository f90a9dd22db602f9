"""The rows of a package's objects and parts, out of its facts.

No more of the document is looked at than the tables have, so that facts of an earlier version, or
of a later one with more in it, are read too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binary_checks.documents.decoding import OddityError, read_document
from binary_checks.errors import RecordError
from binary_checks.fleet.tables.night_rows import Row, plain
from binary_checks.knowledge.inventory import measure_parts
from binary_checks.model import (
    DeviceCode,
    DeviceKind,
    DeviceLinking,
    Format,
    Kind,
    Layout,
    MalformedObject,
    Member,
    ObjectFile,
    Package,
)
from binary_checks.model.objects import object_kinds

_FACTS = "binary-checks/facts/"
_GLIBC = re.compile(r"GLIBC_(\d{1,4}(?:\.\d{1,4})*)")
_RELR = (2, 36)  # GLIBC_ABI_DT_RELR came with it
_ARCHITECTURE = "x86_64"  # of an object file that says none, in the model
_PLACES = ("site_packages", "headers", "climbs")
_MOST = (1 << 62) - 1
_DIGITS = 16  # of a digest that only tells one table of exports from another


@dataclass(frozen=True, kw_only=True, slots=True)
class FactsRows:
    """What the tables have of one package."""

    objects: tuple[Row, ...]
    parts: tuple[Row, ...]


def read_facts_rows(path: Path, night: str, sha256: str, named: str) -> FactsRows:
    """Read a document of facts, ``.json.gz``, which must be that package's.

    Raises RecordError, one line, for one that is cut, corrupt, or of another package.
    """
    try:
        return _read(read_document(path), night, sha256)
    except OddityError as error:
        raise RecordError(f"{named}: {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
        raise RecordError(f"{named}: not the facts of a package") from None


def _read(document: Any, night: str, sha256: str) -> FactsRows:
    if not str(document["schema"]).startswith(_FACTS):
        raise OddityError("not the facts of a package, but another schema")
    objects = [
        {"night": night, "sha256": sha256, **_object_row(row)} for row in document["object_files"]
    ]
    lost = (*document["malformed_objects"], *document["unread_objects"])
    package = Package(
        path=Path("package"),
        layout=_demand_package(document["package"], sha256),
        members=tuple(map(_light_member, document["members"])),
        objects=tuple(map(_light_object, document["object_files"])),
        malformed=tuple(map(_lost_object, lost)),
    )
    parts = [
        {"night": night, "sha256": sha256, "part": part, "files": found.files, "size": found.size}
        for part, found in measure_parts(package).items()
    ]
    return FactsRows(objects=tuple(objects), parts=tuple(parts))


def _demand_package(row: Mapping[str, Any], sha256: str) -> Layout:
    if row["sha256"] != sha256:
        raise OddityError("the facts of another package")
    return Layout(**{name: row["layout"][name] for name in _PLACES if name in row["layout"]})


def _object_row(row: Mapping[str, Any]) -> Row:
    versions = row.get("symbol_versions", ())
    exports = sorted(f"{each['name']}@{each.get('version', '')}" for each in row.get("exports", ()))
    return {
        "path": plain(row["path"]),
        "architecture": plain(row.get("architecture", _ARCHITECTURE)),
        "size": _count(row.get("size", 0)),
        "needed": [plain(each["name"]) for each in row.get("needed", ())],
        "glibc": highest_glibc(each["version"] for each in versions if not each.get("weak")),
        "exports": _digest(exports)[:_DIGITS] if exports else "",
        "gpu": sorted(_find_generations(row.get("device_code", ())) - {""}),
    }


def _find_generations(codes: Iterable[Mapping[str, Any]]) -> set[str]:
    """The GPU architectures of code that a driver can use."""
    unusable = DeviceLinking.UNUSABLE.value
    return {plain(each["architecture"]) for each in codes if each.get("linking") != unusable}


def _digest(texts: Iterable[str]) -> str:
    """Of the texts as lines."""
    found, between = hashlib.sha256(), b""
    for text in texts:
        found.update(between + text.encode("utf-8", "replace"))
        between = b"\n"
    return found.hexdigest()


def highest_glibc(versions: Iterable[str]) -> str:
    """The highest version of glibc among version nodes, as 2.34; "" where none is of it."""
    found = (_RELR if each == "GLIBC_ABI_DT_RELR" else _read_version(each) for each in versions)
    return ".".join(map(str, max(found, default=())))


def _read_version(node: str) -> tuple[int, ...]:
    match = _GLIBC.fullmatch(node)
    return tuple(map(int, match[1].split("."))) if match else ()


def _light_object(row: Mapping[str, Any]) -> ObjectFile:
    """What the measuring of parts looks at."""
    kind = object_kinds()[row["format"]]
    found: dict[str, Any] = {"kind": Kind(row["kind"])} if "kind" in row else {}
    if "device_code" in row:
        found["device_code"] = tuple(map(_light_code, row["device_code"]))
    if "debug_bytes" in row:
        found["debug_bytes"] = _count(row["debug_bytes"])
    return kind(path=str(row["path"]), **found)


def _light_code(row: Mapping[str, Any]) -> DeviceCode:
    amount = _count(row["bytes"])
    return DeviceCode(kind=DeviceKind.UNKNOWN, architecture="", count=1, bytes=amount, compressed=0)


def _light_member(row: Mapping[str, Any]) -> Member:
    return Member(
        path=str(row["path"]),
        archive_name=str(row["archive_name"]),
        size=_count(row.get("size", 0)),
        mode=_count(row.get("mode", 0)),
        target=str(row.get("target", "")),
    )


def _lost_object(row: Mapping[str, Any]) -> MalformedObject:
    return MalformedObject(path=str(row["path"]), format=Format.ELF, offset=0, reason="")


def _count(number: Any) -> int:
    """A number of bytes that a table can hold."""
    return min(max(int(number), 0), _MOST)
