"""Before the parser sees a stranger's file, it is known how much that may take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from binary_checks import examine
from binary_checks.checks.python_code.entry_points import missing_entry_point
from binary_checks.model import Distribution, NotInspected, PythonModules
from binary_checks.python_code import parsing
from binary_checks.python_code import parsing as grammar
from binary_checks.python_code.parsing import (
    LONGEST,
    MOST_TOKENS,
    FaultyError,
    LeftAloneError,
    ParsingBudget,
    admit,
    measure,
    parse,
    tabulate,
    try_parsing,
)
from fixtures.cost import text_rows

ENOUGH = 250_000_000


def left_alone(code: str) -> str:
    with pytest.raises(LeftAloneError) as caught:
        tabulate(code.encode(), ParsingBudget(ENOUGH))
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "size", "reason"),
    [
        (text_rows.conjunction, 700_000, "more than 650000 words and signs"),
        (text_rows.commas, 350_000, "more than 650000 words and signs"),
        (text_rows.late_error, 350_000, "more than 650000 words and signs"),
        (text_rows.lambdas_in_function, 20_000, "would cost too much"),
        (text_rows.long_name, 20_000, "a name of more than 32 parts"),
        (text_rows.combining_marks, 40, "more than 30 combining marks in a row"),
    ],
)
def test_a_file_that_would_take_too_much_never_reaches_the_parser(
    make: Callable[[int], str], size: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammar.symtable, "symtable", lambda *_: pytest.fail("it is parsed"))
    assert reason in left_alone(make(size))


def test_a_file_of_many_bytes_is_left_alone() -> None:
    assert "more than 8388608 are not parsed" in left_alone("#" * (LONGEST + 1))


@pytest.mark.parametrize("size", [2_000, 4_000])
def test_names_in_scopes_are_paid_for(size: int) -> None:
    budget = ParsingBudget(ENOUGH)
    admit(text_rows.lambdas_in_function(size).encode(), budget)
    assert ENOUGH - budget.left > 2 * size * size


@pytest.mark.skipif("sys.version_info >= (3, 12)")
@pytest.mark.parametrize("quotes", ["'''", '"""'])
def test_fields_of_one_f_string_are_paid_for(quotes: str) -> None:
    def cost(size: int) -> int:
        budget = ParsingBudget(ENOUGH)
        code = text_rows.f_string_fields(size).replace("'''", quotes)
        admit(code.encode(), budget)
        return ENOUGH - budget.left

    assert cost(40_000) > 3.5 * cost(20_000)


@pytest.mark.parametrize(
    ("code", "tokens"),
    [
        ("a and a", 3),
        ("1if 2else 3", 3),  # words; the parser sees five tokens
        ("f(a.b, 'c')", 10),
        ("x = [\n]\n", 6),
    ],
)
def test_words_and_signs_are_counted(code: str, tokens: int) -> None:
    assert measure(code.encode()).tokens == tokens


def test_a_file_of_long_texts_has_few_tokens() -> None:
    policies = '"a": "b", \\" ' * (MOST_TOKENS // 4)
    assert measure(f"x = '''{policies}'''  # {policies}\n".encode()).tokens < 100_000


@pytest.mark.parametrize(
    "hiding",
    [
        "f'''{x}{CODE}'''",  # an f-string is code
        "# the end \\\nCODE",
        "# the end \rCODE",
        "'\\\\' CODE",
        "'\\'' CODE",
        "'\\'''' , CODE",
        '"\\"""", CODE',
        "r'\\\\' CODE",
        "'''\\''''''CODE",
        "'a\\\nb' CODE '",
        "x = 'it' # it's\nCODE",
    ],
)
def test_no_code_hides_among_texts(hiding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "MOST_TOKENS", 1000)
    code = hiding.replace("CODE", "a," * 1000)
    with pytest.raises(LeftAloneError):
        measure(code.encode())


def test_all_files_of_a_package_share_one_budget() -> None:
    budget, code = ParsingBudget(1_000_000), text_rows.commas(2_000).encode()
    for _ in range(7):
        tabulate(code, budget)
    with pytest.raises(LeftAloneError):
        tabulate(code, budget)


def test_a_tree_is_made_of_fewer_tokens() -> None:
    with pytest.raises(LeftAloneError, match="too many for a tree"):
        parse(text_rows.commas(150_000).encode(), ParsingBudget(ENOUGH))


@pytest.mark.parametrize("make", [text_rows.late_error, text_rows.commas])
def test_a_large_file_is_tried_in_another_process(
    make: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    monkeypatch.setattr(grammar, "try_parsing", tried.append)
    monkeypatch.setattr(grammar.symtable, "symtable", lambda *_: None)
    tabulate(make(140_000).encode(), ParsingBudget(ENOUGH))
    assert tried == []
    tabulate(make(150_000).encode(), ParsingBudget(ENOUGH))
    assert tried == [make(150_000)]


def test_the_other_process_answers_as_this_one() -> None:
    try_parsing("x = 1\n")
    with pytest.raises(FaultyError, match="invalid syntax"):
        try_parsing("x = 1\nx =\n")
    with pytest.raises(LeftAloneError, match="nested too deeply"):
        try_parsing("-" * 50_000 + "1")


@pytest.mark.skipif("sys.platform != 'linux'")
def test_the_other_process_ends_at_its_limit_of_memory() -> None:
    with pytest.raises(LeftAloneError, match="more than 448 MiB"):
        try_parsing(text_rows.nested_functions(40_000))


def test_what_was_left_alone_is_not_inspected(tmp_path: Path) -> None:
    path = text_rows.write_texts(
        tmp_path, {"demo/core.py": text_rows.commas(350_000)}, "[console_scripts]\na=demo.core:f\n"
    )
    with examine(path) as examination:
        package = examination.get(Distribution)
        (found,) = missing_entry_point(package, examination.get(PythonModules), None)
    assert isinstance(found, NotInspected)
    assert "more than 650000 words and signs" in found.sentence


def test_star_imports_share_one_budget(tmp_path: Path) -> None:
    row = next(row for row in text_rows.ROWS if row.name == "import *")
    made = row.make(tmp_path, 200)
    assert isinstance(made, Path)
    with examine(made) as examination:
        package, modules = examination.get(Distribution), examination.get(PythonModules)
        findings = list(missing_entry_point(package, modules, None))
    assert sum(len(each.bound) for each in modules.names) < 10_000_000
    assert len(findings) == 200
    assert any(isinstance(each, NotInspected) for each in findings)
