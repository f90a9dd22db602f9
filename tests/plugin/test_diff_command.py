"""`binary-checks diff`: its sides, its documents, its exit codes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import jsonschema
import pytest

from binary_checks.command import main
from binary_checks.documents.facts import WRITER, write_facts
from binary_checks.model import Linkage, Package, Symbol, Symbols
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.values import elf_file, member, symbols, wheel
from tests.plugin.conftest import command, healthy

SCHEMA = Path(__file__).parents[2] / "docs" / "diff.schema.json"
MODULES = (member("demo/__init__.py"), member("demo/old.py"))
LIBRARY = elf_file("demo/libdemo.so", name="libdemo.so", exports=symbols("kept", "gone"))
OLD = wheel(members=MODULES, objects=(LIBRARY,))
NEW = wheel(
    members=MODULES[:1],
    objects=(elf_file("demo/libdemo.so", name="libdemo.so", exports=symbols("kept")),),
)
GONE = "break: exports: demo/libdemo.so: lost 1 export (gone)"


def write(
    path: Path,
    package: Package,
    *,
    with_symbols: bool = True,
    linkage: Linkage | None = Linkage(target="t"),  # noqa: B008 - it is frozen
) -> Path:
    text = "".join(write_facts(package, "ab" * 32, linkage, symbols=with_symbols)).encode("ascii")
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def diff(*arguments: str | Path) -> int:
    return main(["diff", *map(str, arguments)])


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path / "old.json", OLD), write(tmp_path / "new.json.gz", NEW)


def test_two_documents_of_facts(
    sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert diff(*sides) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].endswith(": 2 breaks"), out
    assert GONE in out
    assert "break: import-names: demo.old: cannot be imported any more" in out
    assert [diff(*sides, "--fail-on", least) for least in ("break", "change")] == [1, 1]


def test_the_same_build_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = healthy(tmp_path)
    assert diff(path, path, "--fail-on", "change") == 0
    assert capsys.readouterr().out == f"{path.name} -> {path.name}: no difference\n"


def test_a_newer_version_as_the_old_build_is_doubted_beside_the_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = write(tmp_path / "a.json", wheel("demo-1.10-cp311-cp311-manylinux_2_17_x86_64.whl"))
    older = write(tmp_path / "b.json", wheel("demo-1.9-cp311-cp311-manylinux_2_17_x86_64.whl"))
    assert diff(newer, older, "--json") == 0
    out, said = capsys.readouterr()
    assert json.loads(out)["lines"] == []
    assert said.splitlines() == [
        "binary-checks: OLD is 1.10, NEW is 1.9, which is older: the order is `diff OLD NEW`"
    ]
    assert diff(older, newer) == 0
    assert capsys.readouterr().err == ""


def test_two_folders_of_a_build_whatever_they_are_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, exports in (("before", ("kept", "gone")), ("after", ("kept",))):
        (tmp_path / name).mkdir()
        content = build_elf(soname="libdemo.so", exports=tuple(map(ElfSymbol, exports)))
        (tmp_path / name / "libdemo.so").write_bytes(content)
    assert diff(tmp_path / "before", tmp_path / "after", "--fail-on", "break") == 1
    assert "break: exports: libdemo.so: lost 1 export (gone)" in capsys.readouterr().out


def test_its_document_is_what_the_schema_says(
    sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert diff(*sides, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert {line["difference"] for line in document["lines"]} == {"exports", "import-names"}


def test_markdown_for_a_pull_request(
    sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert diff(*sides, "--markdown") == 0
    out = capsys.readouterr().out
    assert "**What may break**" in out
    assert "- `exports` `demo/libdemo.so: lost 1 export (gone)`" in out


def test_objects_that_need_no_library_are_compared_and_an_unknown_linkage_is_not(
    sides: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = sides
    assert diff(old, write(tmp_path / "unknown.json", NEW, linkage=None)) == 0
    out = capsys.readouterr().out
    assert "2 breaks, 1 not compared" in out
    assert "its facts have no linkage: it is unknown whether libraries are found" in out
    assert diff(old, new) == 0
    assert "not compared" not in capsys.readouterr().out


def test_accepted_breaks_pass(sides: tuple[Path, Path], tmp_path: Path) -> None:
    known = tmp_path / "known.toml"
    entry = '[[known_problems]]\ncheck = "{}"\nreason = "announced"\n'
    known.write_text(entry.format("exports") + entry.format("import-names"))
    assert diff(*sides, "--known", known, "--fail-on", "change") == 0
    unknown = write(tmp_path / "unknown.json", NEW, linkage=None), sides[1]
    assert diff(*unknown, "--known", known, "--fail-on", "change") == 1, "no linkage is a gap"
    known.write_text(known.read_text() + entry.format("not-compared"))
    assert diff(*unknown, "--known", known, "--fail-on", "change") == 0


def test_a_known_list_that_names_no_difference_is_refused(
    sides: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = tmp_path / "known.toml"
    known.write_text('[[known_problems]]\ncheck = "export"\nreason = "x"\n')
    assert diff(*sides, "--known", known) == 4
    assert "'export' is not a difference; did you mean exports?" in capsys.readouterr().err


def test_facts_without_symbols_are_not_a_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = write(tmp_path / "bare.json", OLD, with_symbols=False)
    assert diff(bare, bare, "--fail-on", "break") == 1
    assert "not compared: exports: demo/libdemo.so: the facts were written without symbols" in (
        capsys.readouterr().out
    )


def test_facts_of_an_earlier_version_are_compared_and_named(
    sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = sides
    old.write_text(old.read_text().replace(WRITER, "binary-checks 0.0.1"))
    assert diff(old, new) == 0
    out = capsys.readouterr().out
    assert GONE in out
    assert "its facts were written by 'binary-checks 0.0.1'" in out


def result(folder: Path, package: Path) -> Path:
    path = folder / f"{package.parent.name}-result.json"
    options = ["--binary-static", "-m", "hardening", "--binary-report", f"json:{path}"]
    command(folder, *options, package)
    return path


def test_results_alone_are_not_taken_for_facts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = healthy(tmp_path)
    found = result(tmp_path, path)
    assert diff(found, path) == 0
    out = capsys.readouterr().out
    assert "only its results are given" in out
    assert "import-names" not in out
    assert diff(found, path, "--fail-on", "break") == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[]", "not a facts document"),
        (b"\x1f\x8b not gzip", "incomplete, or not gzip"),
        (gzip.compress(b"{" * 9, mtime=0)[:-6], "not"),
        (b'{"schema": "binary-checks/facts/9"}', "its schema is 'binary-checks/facts/9'"),
    ],
)
def test_documents_that_are_none_are_refused_in_one_line(
    tmp_path: Path, content: bytes, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ("x.json.gz" if content[:1] == b"\x1f" else "x.json")
    path.write_bytes(content)
    assert diff(path, path) == 4
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("one",),
        (),
        (".", "."),
        ("no-such.whl", "no-such.whl"),
        ("a.whl", "b.whl", "--fail-on", "all"),
        ("store:demo", "store:demo"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert diff(*arguments) == 4
    assert capsys.readouterr().err.startswith("binary-checks: ")


def test_symbols_of_a_document_are_those_of_the_model(tmp_path: Path) -> None:
    from binary_checks.documents.builds import read_build

    table = Symbols(
        [
            Symbol(name="a", version="V1", weak=True),
            Symbol(name="a", version="V2"),
            Symbol(name="b"),
        ]
    )
    package = wheel(objects=(elf_file(exports=table),))
    (item,) = read_build(write(tmp_path / "f.json", package)).package.objects
    assert sorted(item.exports, key=repr) == sorted(table, key=repr)
    assert item.exports.find("a") == tuple(table)[:2]
    assert (len(item.exports), item.exports.names) == (3, {"a", "b"})
