"""Facts read from JSON equal those written; any other document is refused in one line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks import objects
from binary_checks.documents import json_values
from binary_checks.documents.facts import Statement, record_sha256, restore, write_facts
from binary_checks.errors import ProfileError, Unavailable
from binary_checks.model import (
    Edge,
    Format,
    Linkage,
    MalformedObject,
    OpenedNames,
    Package,
    Rule,
    UnreadObject,
    Wheel,
)
from binary_checks.packages import open_package
from fixtures.build_wheel import build_wheel
from fixtures.samples import FOLDER
from fixtures.values import elf_file, macho_file, member, pe_file, symbols, wheel

LINKAGE = Linkage(
    target="t",
    edges=(
        Edge(path="a.so", architecture="x86_64", needed="b"),
        Edge(path="a.so", architecture="x86_64", needed="c", unknown="nobody has it", weak=True),
        Edge(path="a.so", architecture="x86_64", needed="d", resolved="d.so", rule=Rule.RPATH),
    ),
)
PACKAGE = wheel(
    objects=(
        elf_file("demo/a.so", imports=symbols("memcpy@GLIBC_2.14"), exports=symbols("PyInit_a")),
        elf_file("demo/o.so", opened=OpenedNames(names=("libx.so",), unread="not all")),
        macho_file("demo/b.so", rpaths=("@loader_path",), opened=OpenedNames()),
        pe_file("demo/c.pyd", signature_matches=False),
    ),
    members=(member("demo/__init__.py", b"x = 1"),),
    malformed=(MalformedObject(path="demo/m.so", format=Format.ELF, offset=64, reason="cut off"),),
    unread=(UnreadObject(path="demo/u.dll", format=Format.PE, reason="not read yet"),),
)


def write(folder: Path, package: Package = PACKAGE, *, symbols: bool = True) -> Path:
    path = folder / "facts.json"
    path.write_text("".join(write_facts(package, "ab" * 32, LINKAGE, symbols=symbols)))
    return path


def through_json(folder: Path, package: Package, *, symbols: bool = True) -> Package:
    return replace(restore(write(folder, package, symbols=symbols)).package, path=package.path)


def test_facts_come_back_as_they_went_and_name_their_package(tmp_path: Path) -> None:
    assert through_json(tmp_path, PACKAGE) == PACKAGE
    stated = restore(write(tmp_path))
    assert stated == Statement(
        sha256="ab" * 32, record_sha256=record_sha256(PACKAGE), package=stated.package
    )
    assert restore(write(tmp_path), edges=True).edges == LINKAGE.edges
    for record in (None, ()):
        package = through_json(tmp_path, wheel(record=record))
        assert isinstance(package, Wheel)
        assert package.record == record


@pytest.mark.parametrize("folder", ["elf", "macho", "pe", "fatbin"])
def test_what_the_readers_find_in_samples_comes_back(tmp_path: Path, folder: str) -> None:
    files = sorted(path for path in (FOLDER / folder).rglob("*") if path.is_file())
    members = {f"demo/{number}/{path.name}": path.read_bytes() for number, path in enumerate(files)}
    package = open_package(build_wheel(tmp_path, members=members), objects)
    assert package.objects
    assert through_json(tmp_path, package) == package


def test_without_symbols_whoever_asks_for_one_could_not_look(tmp_path: Path) -> None:
    library, *_ = through_json(tmp_path, PACKAGE, symbols=False).objects
    for ask in (
        lambda: library.imports.names,
        lambda: "abort" in library.exports,
        lambda: list(library.exports),
        lambda: len(library.imports),
        lambda: library.imports.strong,
        lambda: bool(library.imports),
    ):
        with pytest.raises(Unavailable, match="without symbols"):
            ask()


Change = Callable[[str], str]


def swap(old: str, new: str) -> Change:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: "", "not JSON"),
        (lambda text: "[1, 2]", "not a facts document"),
        (swap('"binary-checks/facts/3"', '"binary-checks/facts/4"'), "its schema is"),
        (swap('"written_by": "binary-checks ', '"written_by": "binary-checks 9'), "inspect again"),
        (swap('"symbols": true', '"symbols": 1'), "$.symbols: 1 is neither true nor false"),
        (swap('"symbols": true', '"symbols": false'), "symbols, although the document states"),
        (swap('"size": 4096', '"sise": 4096'), '$.object_files[0]: unknown field "sise"'),
        (
            swap('"size": 4096', '"size": "4096"'),
            '$.object_files[0].size: "4096" is not a 64-bit integer',
        ),
        (swap('"size": 4096', '"size": 1' + "0" * 30), "is not a 64-bit integer"),
        (swap('"size": 4096', '"size": 1' + "0" * 5000), "number"),
        (swap('"size": 4096', '"size": NaN'), "NaN is not a valid number"),
        (swap('"size": 4096', '"size": true'), "size: true is not a 64-bit integer"),
        (swap('"size": 4096', '"size": 1, "size": 2'), "twice"),
        (swap('"size": 4096', '"size": ' + "[" * 100_000), "nested too deeply"),
        (swap('"size": 4096', '"kind": "library"'), "is not one of"),
        (swap('"path": "demo/a.so", ', ""), "no field 'path'"),
        (swap('"format": "ELF"', '"format": "a.out"'), "unknown format"),
        (swap('"rpaths": ["@loader_path"]', '"rpaths": [1]'), ".rpaths[0]: 1 is"),
        (
            swap('"name": "memcpy"', '"nom": "memcpy"'),
            "$.object_files[0].imports[0]: unknown field",
        ),
        (swap('"name": "demo"', '"nom": "demo"'), "$.package: no field 'name'"),
        (swap('"kind": "Wheel"', '"kind": "Egg"'), "its kind 'Egg'"),
        (swap('"tags": ["cp311-', '"tags": ["'), "$.package.tags[0]: "),
        (
            swap('"record_sha256": "', '"record_sha256": "0'),
            "record_sha256 does not match its record",
        ),
        (swap('"members": [', '"menbers": ['), 'unknown field "menbers"'),
        (swap('"linkage": [', '"members": ['), "the same key twice"),
        (lambda text: text[: len(text) // 2], "not JSON"),
        (lambda text: text + "{}\n", "not JSON at line"),
        (swap('"symbols": true,', '"symbols": true'), "not JSON at line 5"),
        (
            lambda text: text.replace('"sha256": "', '"sha256": "x'),
            "$.members[0].sha256: not the 64 hexadecimal digits",
        ),
        (swap('"members": [', '"members": {}, "x": ['), 'unknown field "x"'),
        (swap('"malformed_objects": [', '"malformed_objects": 1, "unread_objects": ['), "twice"),
    ],
)
def test_another_document_is_refused_in_one_line(tmp_path: Path, change: Change, said: str) -> None:
    path = write(tmp_path)
    path.write_text(change(path.read_text()), encoding="utf-8")
    with pytest.raises(ProfileError, match=r"^facts\.json: ") as caught:
        restore(path, edges=True)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "how",
    [
        {"indent": 4},
        {"separators": (",", ":")},
        {"ensure_ascii": False, "sort_keys": True},
    ],
)
def test_any_json_tool_may_write_the_document_again(tmp_path: Path, how: dict[str, Any]) -> None:
    package = wheel(objects=(elf_file("demo/größe.so"),), members=(member("demo/größe.py", b""),))
    path = write(tmp_path, package)
    before = restore(path, edges=True)
    document = json.loads(path.read_text())
    turned = dict(reversed(document.items()))
    path.write_text(json.dumps(turned, **how), encoding="utf-8")
    assert restore(path, edges=True) == before


def test_a_document_that_is_too_large_is_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path)
    packed = path.with_suffix(".json.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    monkeypatch.setattr(json_values, "LARGEST", 1000)
    for each in (path, packed):
        with pytest.raises(ProfileError, match="larger than 1000 bytes"):
            restore(each)


@pytest.mark.parametrize(("part", "times"), [("[],", 5_000_000), ("1,", 10_000_000)])
def test_a_document_of_too_many_parts_is_not_parsed(tmp_path: Path, part: str, times: int) -> None:
    path = tmp_path / "x.json"
    path.write_text(f"[{part * times}0]")
    with pytest.raises(ProfileError, match=r"x\.json: it has more than 10,000,000 parts"):
        restore(path)


def test_what_is_no_file_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b"{\xf6}")
    for path, reason in (
        (tmp_path, "not a regular file"),
        (tmp_path / "missing.json", "cannot be read"),
        (Path(), r"^\.: not a regular file"),
        (tmp_path / "x.json", r"^x\.json: not UTF-8 at byte 0x1"),
    ):
        with pytest.raises(ProfileError, match=reason):
            restore(path)
