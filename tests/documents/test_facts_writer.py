"""Facts as JSON have the model's names, no defaults, and the same bytes each time."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from binary_checks.documents.facts import record_sha256, write_facts
from binary_checks.model import (
    Dependency,
    DeviceCode,
    DeviceKind,
    Edge,
    Format,
    Linkage,
    MalformedObject,
    NeededVersion,
    Package,
    RecordRow,
    Rule,
    UnreadObject,
)
from fixtures.values import elf_file, symbols, wheel

PACKAGE = wheel(
    objects=(
        elf_file(
            "demo/b.so",
            needed=(Dependency(name="libc.so.6"), Dependency(name="libx.so", weak=True)),
            runpath=("$ORIGIN",),
            symbol_versions=(NeededVersion(library="libc.so.6", version="GLIBC_2.17"),),
            imports=symbols("memcpy@GLIBC_2.14", "abort"),
            exports=symbols("PyInit_b"),
        ),
    ),
    malformed=(MalformedObject(path="demo/m.so", format=Format.ELF, offset=64, reason="cut off"),),
    unread=(UnreadObject(path="demo/u.dll", format=Format.PE, reason="not read yet"),),
)
EDGES = (
    Edge(path="demo/b.so", architecture="x86_64", needed="libx.so"),
    Edge(
        path="demo/b.so",
        architecture="x86_64",
        needed="libc.so.6",
        resolved="system:libc.so.6",
        rule=Rule.SYSTEM,
    ),
)


def text(package: Package = PACKAGE, *, symbols: bool = True) -> str:
    linkage = Linkage(target="manylinux_2_17_x86_64", edges=EDGES)
    return "".join(write_facts(package, "ab" * 32, linkage, symbols=symbols))


def facts(package: Package = PACKAGE, *, symbols: bool = True) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(text(package, symbols=symbols))
    return read


def test_the_document_names_its_schema_and_the_package_but_no_path_of_this_machine() -> None:
    assert facts()["schema"] == "binary-checks/facts/3"
    package = facts()["package"]
    assert package["name"] == "demo"
    assert package["version"] == "1.0"
    assert package["sha256"] == "ab" * 32
    assert package["record_sha256"] == record_sha256(PACKAGE)
    assert package["tags"] == ["cp311-cp311-manylinux_2_17_x86_64"]
    assert "path" not in package


def test_an_object_has_the_models_names_no_defaults_and_symbols_that_can_be_left_out() -> None:
    (item,) = facts(symbols=False)["object_files"]
    assert item == {
        "format": "ELF",
        "needed": [{"name": "libc.so.6"}, {"name": "libx.so", "weak": True}],
        "path": "demo/b.so",
        "runpath": ["$ORIGIN"],
        "size": 4096,
        "symbol_versions": [{"library": "libc.so.6", "version": "GLIBC_2.17"}],
    }
    (item,) = facts()["object_files"]
    assert item["exports"] == [{"name": "PyInit_b"}]
    assert item["imports"] == [{"name": "abort"}, {"name": "memcpy", "version": "GLIBC_2.14"}]


def test_linkage_rows_are_whole_and_sorted_and_what_could_not_be_read_is_named() -> None:
    rows = facts()["linkage"]
    assert [row["needed"] for row in rows] == ["libc.so.6", "libx.so"]
    assert rows[0] == {
        "path": "demo/b.so",
        "architecture": "x86_64",
        "needed": "libc.so.6",
        "resolved": "system:libc.so.6",
        "rule": "system",
    }
    assert (rows[1]["resolved"], rows[1]["rule"]) == (None, "missing")
    (malformed,) = facts()["malformed_objects"]
    assert malformed == {"format": "ELF", "offset": 64, "path": "demo/m.so", "reason": "cut off"}
    (unread,) = facts()["unread_objects"]
    assert unread["format"] == "PE"


def test_device_code_has_all_five_words_always() -> None:
    code = DeviceCode(kind=DeviceKind.SASS, architecture="sm_90a", count=1, bytes=64, compressed=0)
    (item,) = facts(wheel(objects=(elf_file(device_code=(code,)),)))["object_files"]
    assert item["device_code"] == [
        {"kind": "sass", "architecture": "sm_90a", "count": 1, "bytes": 64, "compressed": 0}
    ]


def test_the_bytes_are_the_same_each_time_and_ascii_and_whole_without_objects() -> None:
    read = json.loads("".join(write_facts(wheel(), "00", None, symbols=True)))
    assert (read["object_files"], read["linkage"]) == ([], None)
    assert text() == text()
    assert text(wheel(metadata=(("Name", "demo"), ("Summary", "für Ärzte")))).isascii()


def test_the_records_hash_is_of_its_rows_in_any_order_without_its_own() -> None:
    rows = (
        RecordRow(path="demo/b.py", hash="sha256=x", size=3),
        RecordRow(path="demo/a.py"),
        RecordRow(path="demo-1.0.dist-info/RECORD"),
    )
    expected = hashlib.sha256(b"demo/a.py,,\ndemo/b.py,sha256=x,3").hexdigest()
    assert record_sha256(wheel(record=rows)) == expected
    assert record_sha256(wheel(record=rows[::-1])) == expected
    for nothing in (None, ()):
        assert record_sha256(wheel(record=nothing)) == hashlib.sha256(b"").hexdigest()
