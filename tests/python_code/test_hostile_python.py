"""Whatever a package's Python files say, reading them ends, at a bounded cost, without a word."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binary_checks.python_code.guarded_code import Opening, find_openings
from binary_checks.python_code.parsing import LeftAloneError

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
