"""Whatever a package's Python files say, reading them ends, at a bounded cost, without a word."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binary_checks import examine
from binary_checks.checks.python_code.entry_points import missing_entry_point
from binary_checks.model import Distribution, NotInspected, PythonModules
from binary_checks.python_code import parsing
from binary_checks.python_code.guarded_code import Opening, find_openings
from binary_checks.python_code.parsing import (
    LONGEST,
    FaultyError,
    LeftAloneError,
    parse,
    tabulate,
)
from fixtures.cost import text_rows


def left_alone(code: str) -> str:
    with pytest.raises(LeftAloneError) as caught:
        tabulate(code.encode())
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "size", "reason"),
    [
        (text_rows.conjunction, 150_000, "more than 290000 are not parsed"),
        (text_rows.commas, 150_000, "more than 290000 are not parsed"),
        (text_rows.late_error, 150_000, "more than 290000 are not parsed"),
        (text_rows.lambdas_in_function, 3_000, "too many names in too many functions"),
        (text_rows.nested_functions, 40_000, "too many names in too many functions"),
        (text_rows.f_string_fields, 60_000, "too many f-strings"),
        (text_rows.long_name, 2_000, "a name of more than 32 parts"),
        (text_rows.combining_marks, 6_000, "more than 10000 combining marks"),
    ],
)
def test_a_file_that_would_take_too_much_never_reaches_the_parser(
    make: Callable[[int], str], size: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsing.symtable, "symtable", lambda *_: pytest.fail("it is parsed"))
    assert reason in left_alone(make(size))


def test_a_file_of_many_bytes_is_left_alone() -> None:
    assert "more than 1048576 are not parsed" in left_alone("#" * (LONGEST + 1))


@pytest.mark.parametrize("make", [text_rows.lambdas_in_function, text_rows.nested_functions])
def test_a_file_below_the_limits_is_parsed(make: Callable[[int], str]) -> None:
    assert tabulate(make(1_500).encode()).symbols.get_identifiers()
    text = '"a": "b", \\\\" ' * 6_000
    assert tabulate(f"x = '''{text}'''  # {text}\n".encode()).symbols.get_identifiers()


@pytest.mark.parametrize(
    "code",
    [
        "-" * 50_000 + "1",
        "(" * 50_000,
        "a" + ".b" * 50_000,
        "a" + "()" * 50_000,
        "+".join(["a"] * 50_000),
        "lambda: " * 50_000 + "1",
        "not " * 50_000 + "a",
        "[a for a in " * 5_000,
    ],
    ids=lambda code: code[:12],
)
@pytest.mark.parametrize("read", [parse, tabulate])
def test_no_nesting_ends_the_process(read: Callable[[bytes], object], code: str) -> None:
    with suppress(LeftAloneError):
        read(code.encode())


def test_a_file_that_does_not_compile_is_faulty() -> None:
    for read in (parse, tabulate):
        with pytest.raises(FaultyError, match="invalid syntax"):
            read(b"x = 1\nx =\n")


def test_what_was_left_alone_is_not_inspected(tmp_path: Path) -> None:
    path = text_rows.write_texts(
        tmp_path, {"demo/core.py": text_rows.commas(150_000)}, "[console_scripts]\na=demo.core:f\n"
    )
    with examine(path) as examination:
        package = examination.get(Distribution)
        (found,) = missing_entry_point(package, examination.get(PythonModules), None)
    assert isinstance(found, NotInspected)
    assert "more than 290000 are not parsed" in found.sentence


def test_of_star_imports_only_the_names_that_are_asked_for_are_kept(tmp_path: Path) -> None:
    row = next(row for row in text_rows.ROWS if row.name == "import *")
    made = row.make(tmp_path, 200)
    assert isinstance(made, Path)
    with examine(made) as examination:
        package, modules = examination.get(Distribution), examination.get(PythonModules)
        findings = list(missing_entry_point(package, modules, None))
    assert sum(len(each.bound) for each in modules.names) == 200 * 200
    assert len(findings) == 200


KNOWN = [Opening("CDLL(__path__[0])", literal=False, tried=False, late=False)]


def find(code: bytes) -> list[Opening]:
    """The calls that open files; none for code that is left alone."""
    try:
        return find_openings(code)
    except LeftAloneError:
        return []


def opening(argument: str, *before: str) -> bytes:
    """Code that opens a library after some other lines."""
    return "\n".join((*before, f"CDLL({argument})")).encode()


def calls_of(function: Callable[[], object]) -> int:
    """How many Python functions are called."""
    count = 0

    def profile(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    "code",
    [
        b"# coding: utf-7\nos.add_dll_directory(x)",
        b"# coding: punycode\n" + b"a" * 20_000 + b"-" + b"b" * 90_000,
        b"# coding: zlib\nos.add_dll_directory(x)",
        b"# coding: no-such-codec\nos.add_dll_directory(x)",
        b"# coding: " + b"a" * 180_000 + b"\nos.add_dll_directory(x)",
        b"\xff\xfea\0d\0d\0",
        b"x = '\xe9'",
        b"x = '\0'",
        b"def add_dll_directory(:",
        b"".join(b" " * depth + b"if x:\n" for depth in range(600)),
    ],
    ids=lambda code: code[:24].decode("ascii", "replace"),
)
def test_what_is_no_plain_python_is_left_alone(code: bytes) -> None:
    with pytest.raises(LeftAloneError):
        find_openings(code)


@pytest.mark.parametrize("head", [b"\xef\xbb\xbf", b"# coding: latin-1\nx = '\xe9'\n"])
def test_encodings_that_spell_paths_as_they_are_are_known(head: bytes) -> None:
    assert find_openings(head + opening("__path__[0]")) == KNOWN


def test_what_the_parser_warns_of_is_not_shown() -> None:
    code = opening("__path__[0]", r"x = '\d'", "assert (x, 'y')", "x is 1")
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("error")
        assert find_openings(code) == KNOWN
    assert shown == []


PIECES = st.sampled_from(
    [
        "a = CDLL(__file__)", "f(*a, **b)", "os.path.join(a, 'b')", "def f(a, b=f()): return b",
        "for a in f(): CDLL(a)", "while a: f(b=a)", "lambda a: dlopen(a)", "import a.b, os",
        "try: f()\nexcept a.b: CDLL()", "with suppress(f(), x.y) as a: b = f", "class f:\n f()",
        "if exists(a) or sys.f: CDLL(a)", "x = [f'{a}{CDLL(b)!r}' for a in (f := f)]",
    ]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=12).map("\n".join) | st.text() | st.binary())
def test_no_code_breaks_the_reader_or_takes_long(code: str | bytes) -> None:
    text = code if isinstance(code, bytes) else code.encode(errors="surrogatepass")
    assert calls_of(lambda: find(text)) < 100_000
    for call in find(text):
        assert len(call.code) < 2 * len(text)
