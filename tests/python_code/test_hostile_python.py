"""Whatever a package's Python files say, reading them ends, at a bounded cost, without a word."""

from __future__ import annotations

import sys
import tracemalloc
import warnings
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binary_checks.python_code.guarded_code import Opening, find_openings
from binary_checks.python_code.parsing import LeftAloneError

MB = 1 << 20
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


def memory_of(function: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


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
    "argument",
    [
        "'a'.split(',', 10**23)",
        "'a'.ljust(10**23)",
        "'a' * 10**12",
        "'a' * 10**10**10",
        "'%9999999999d' % 1",
        "'{:>9999999999}'.format(1)",
        "f'{1:>9999999999}'",
        "__file__.replace('', __file__ * 99999)",
        "Path(__file__).parents[1.5]",
        "__file__ + '/\\ud800'",
        "__file__ + '/\\x1b[31m'",
        "__file__ + '/\\u202e'",
        "'|'",
        "1" * 5000,
        "'\0'",
        "(" * 90_000,
        "-" * 20_000 + "1",
        "[" * 199 + "'a'" + "]" * 199,
        "a" + ".b" * 20_000,
        "a" + "()" * 20_000,
        "+".join(["'a'"] * 20_000),
        "lambda: " * 20_000 + "1",
        "os.path.dirname(" * 95 + "__file__" + ")" * 95,
        "os.path.join(" + "'a', " * 9_000 + "'b')",
        "*a, **b",
    ],
    ids=lambda argument: argument[:24].encode("ascii", "replace").decode(),
)
def test_an_expression_is_not_computed(argument: str) -> None:
    assert memory_of(lambda: find(opening(argument))) < 50 * MB


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


def test_a_large_file_is_left_alone() -> None:
    with pytest.raises(LeftAloneError, match="more than 1048576 are not parsed"):
        find_openings(b"#" * (1 << 20) + b"\n")


NAMES = st.sampled_from(["a", "b", "f", "os", "Path", "__file__", "__path__", "x.y", "f.f"])
TEXTS = st.sampled_from(
    ["'a'", "'..'", "'/'", "''", "None", "0", "1.5", "b'a'", "...", "'\\ud800'"]
)
TEMPLATES = st.sampled_from(
    [
        "{} + {}", "{} / {}", "{} * {}", "{} or {}", "{} if {} else {}", "[{}, {}]", "{{1: {}}}",
        "os.path.join({}, {})", "os.path.dirname({})", "Path({}).parent", "Path({}).parents[{}]",
        "f({}, {})", "f(b={})", "{}.join({})", "f'{{{}}}'", "[a for a in {} if {}]", "(a := {})",
        "{}[{}]", "*{}", "os.environ[{}]", "glob.glob({})", "lambda a: {}", "getattr({}, {})",
    ]
)  # fmt: skip
EXPRESSIONS = st.recursive(
    NAMES | TEXTS,
    lambda inner: st.builds(
        lambda template, parts: template.format(*parts), TEMPLATES, st.tuples(inner, inner, inner)
    ),
    max_leaves=12,
)
STATEMENTS = st.builds(
    lambda template, parts: template.format(*parts),
    st.sampled_from(
        [
            "a = {}", "b += {}", "a, b = {}", "a.append({})", "a[{}] = {}", "global a",
            "for a in {}: b = {}", "while {}: a = {}", "def f(a, b={}): return {}",
            "def f(*a, **b): yield {}", "from os import {} as f", "import a.b, os, glob",
            "from pathlib import Path", "with {} as a: b = {}", "os.add_dll_directory({})",
            "ctypes.CDLL({})", "del a", "class f:\n a = {}", "try: {}\nexcept f as a: {}",
        ]
    ),
    st.tuples(EXPRESSIONS, EXPRESSIONS),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(STATEMENTS, max_size=12).map("\n".join) | st.text() | st.binary())
def test_no_code_breaks_the_reader_or_takes_long(code: str | bytes) -> None:
    text = code if isinstance(code, bytes) else code.encode(errors="surrogatepass")
    assert calls_of(lambda: find(text)) < 100_000
    for call in find(text):
        assert len(call.code) < 2 * len(text)
