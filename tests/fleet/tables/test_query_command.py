from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="the extra fleet is not installed")

from binary_checks.command import main
from binary_checks.fleet.store import closed_name, open_store, result_name, table_name
from binary_checks.fleet.stored_nights import read_attempt, write_attempt
from binary_checks.fleet.tables.rows import TABLES
from binary_checks.model import Problem
from fixtures.fleet.nights import Nights, collect, make_nights
from fixtures.fleet.script_of_nights import ROLES

HOSTILE = (
    "first\nsecond ::error::injected \x1b[31mred\x1b[0m </script><script>alert(1)</script> "
    "##vso[task.complete] | `x` @everyone \u202egnp.exe\x00\ud800 =cmd()"
)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    """Nights in which the problem of tonight has a hostile sentence and path."""
    made = make_nights(tmp_path_factory.mktemp("nights") / "store", 4, 3)
    path = made.folder / result_name(made.tonight, made.cell(ROLES.breaks_tonight), "cpu", 1)
    attempt = read_attempt(path.read_bytes(), "it")
    assert attempt.result is not None
    (package,) = attempt.result.packages
    hostile = (Problem(sentence=HOSTILE, path=f"=1+1{HOSTILE}"),)
    entries = (replace(each, problems=hostile if each.problems else ()) for each in package.entries)
    result = replace(attempt.result, packages=(replace(package, entries=tuple(entries)),))
    path.write_bytes(write_attempt(replace(attempt, result=result)))
    for name in (*(table_name(made.tonight, each) for each in TABLES), closed_name(made.tonight)):
        (made.folder / name).unlink()
    collect(open_store(str(made.folder)), made.tonight)
    return made


def query(*arguments: str, nights: Nights | None = None) -> int:
    store = ["--store", str(nights.folder)] if nights else []
    return main(["query", *arguments, *store])


def test_without_a_question_those_that_are_shipped_are_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert query() == 0
    shown = capsys.readouterr().out
    assert "newly-broken          What fails in a night and did not fail when" in shown
    assert "architecture: a target of device code (sm_70, gfx90a)" in shown


def test_a_table_for_people(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    assert query("grid", "rows=2", nights=nights) == 0
    head, *rows, count = capsys.readouterr().out.splitlines()
    assert head.split() == ["project", "cell", "nights", "state", "last_night", "troubles", "kind"]
    assert [row.split()[-4] for row in rows] == ["failed", "failed", "passed", "passed"]
    assert count == "4 rows"
    assert query("missing", nights=nights) == 0
    assert capsys.readouterr().out == "0 rows\n"


def test_free_sql_as_json_csv_and_markdown(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = "SELECT night, state, count(*) AS cells, 0.1::REAL AS x, true AS y, ['a'] AS z FROM cells"
    sql += " WHERE night = $night::DATE GROUP BY ALL ORDER BY state"
    assert query(sql, "--json", nights=nights) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "schema": "binary-checks/query/1",
        "columns": ["night", "state", "cells", "x", "y", "z"],
        "rows": [
            {"night": nights.tonight, "state": state, "cells": 2, "x": 0.1, "y": True, "z": ["a"]}
            for state in ("failed", "passed")
        ],
    }
    assert query(sql, "--csv", nights=nights) == 0
    assert list(csv.reader(io.StringIO(capsys.readouterr().out)))[1] == [
        *(nights.tonight, "failed", "2", "0.1", "true", '["a"]')
    ]
    assert query(sql, "--markdown", nights=nights) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "| night | state | cells | x | y | z |",
        "| --- | --- | --- | --- | --- | --- |",
    ]


@pytest.mark.parametrize("form", ["--json", "--csv", "--markdown", None])
@pytest.mark.parametrize("question", ["newly-broken", "SELECT * FROM checks WHERE problems > 0"])
def test_hostile_texts_stay_inert(
    nights: Nights, capsys: pytest.CaptureFixture[str], form: str | None, question: str
) -> None:
    assert query(question, *filter(None, [form]), nights=nights) == 0
    shown = capsys.readouterr().out
    assert "second" in shown
    assert "::error::" not in shown
    assert "##vso[" not in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\x00" not in shown
    lines = shown.splitlines()
    assert not any(line.startswith("second") for line in lines)
    if form == "--csv":
        cells = [cell for row in csv.reader(io.StringIO(shown)) for cell in row]
        assert any(cell.startswith("'=1+1") for cell in cells)
        assert not any(cell.startswith("=") for cell in cells)
    if form == "--json":
        assert shown.isascii()
        values = [value for row in json.loads(shown)["rows"] for value in row.values()]
        assert any("first\nsecond" in value for value in values if isinstance(value, str))
    if form == "--markdown":
        assert {line.replace("\\|", "").count("|") for line in lines} == {lines[0].count("|")}
        assert "@everyone" not in shown.replace("`", "\0").split("\0")[0::2]


def test_a_file_and_stdin_have_sql_of_several_lines_that_is_never_cut(
    nights: Nights,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql = "-- how many\nSELECT count(*)\nFROM cells"
    (tmp_path / "mine.sql").write_text(sql)
    assert query(str(tmp_path / "mine.sql"), "--csv", nights=nights) == 0
    assert capsys.readouterr().out == "count_star()\n12\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(sql.encode())))
    assert query("-", "--csv", nights=nights) == 0
    assert capsys.readouterr().out == "count_star()\n12\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    assert query("-", "--csv", nights=nights) == 4
    assert capsys.readouterr().err == "binary-checks: standard input: not UTF-8\n"
    (tmp_path / "long.sql").write_text(f"SELECT 1 {' ' * (1 << 20)} UNION SELECT 2")
    assert query(str(tmp_path / "long.sql"), nights=nights) == 4
    assert capsys.readouterr().err == (
        "binary-checks: long.sql: cannot be read: more than 1,048,576 bytes\n"
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["gird"], "query: gird: not a question; did you mean grid? (known: architecture-"),
        (["grid", "row=3"], "row: the SQL has no such parameter (known: cell, night, rows)"),
        (["grid", "rows"], "query: rows: not a parameter: give NAME=VALUE"),
        (["grid", "rows=many"], "SQL: Conversion Error: Could not convert string 'many'"),
        (["grid", "--nights", "0"], "query: argument --nights: '0' is not a number of 1 or more"),
        (["grid", "--jsn"], "query: unknown option --jsn; did you mean --json?"),
        (["newly-broken", "night=2001-01-01"], "night=2001-01-01: there is no such closed night"),
        (["newly-broken", "night=tonight"], "night=tonight: there is no such closed night"),
        (["SELECT $night", "night=2001-01-01"], "night=2001-01-01: there is no such closed night"),
        (["grid", "--project", "nmpy"], "--project 'nmpy': no cells of this project in"),
        (["none.sql"], "none.sql: cannot be read: No such file"),
        (["SELECT 1 +"], "SQL: Parser Error: syntax error at"),
        (["SELECT * FROM cels"], "SQL: Catalog Error: Table with name cels does not exist!"),
        (["SELECT $word"], "SQL: no value for $word: give word=VALUE"),
    ],
)
def test_a_mistake_is_one_line(
    nights: Nights, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    assert query(*arguments, nights=nights) == 4
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"binary-checks: {reason}")
    assert shown.err.count("\n") == 1


def test_a_store_that_is_none_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["query", "grid"]) == 4
    assert capsys.readouterr().err == "binary-checks: query: give the store: --store URL\n"
    assert main(["query", "grid", "--store", str(tmp_path / "none")]) == 6
    assert "not a store" in capsys.readouterr().err


def test_a_long_answer_is_cut_on_a_terminal_and_says_so(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    assert query("SELECT range FROM range(1_001)", nights=nights) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1_002
    assert lines[-1] == "the first 1,000 rows; --csv has all"


def test_what_json_cannot_say_is_a_text_and_the_name_of_a_column_is_no_formula(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = "SELECT 'inf'::DOUBLE AS a, 1.5::DECIMAL(3, 1) AS b, NULL AS c, {'d': 'e'} AS d"
    assert query(sql, "--json", nights=nights) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row == {"a": "inf", "b": "1.5", "c": None, "d": {"d": "e"}}
    assert query('SELECT 1 AS "=cmd()"', "--csv", nights=nights) == 0
    assert capsys.readouterr().out == "'=cmd()\n1\n"
