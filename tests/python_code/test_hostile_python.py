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

from binary_checks.python_code import dll_directories
from binary_checks.python_code.dll_directories import DllLoading, SourceFile, find_loading
from fixtures.slow import slow

MB = 1 << 20
HERE = "demo/__init__.py"
LEFT_ALONE = DllLoading(loading_code=(HERE,))


def follow(code: bytes) -> DllLoading:
    return find_loading([SourceFile(HERE, len(code), lambda: code)], [HERE, "demo/lib/a.dll"])


def adding(argument: str, *before: str) -> bytes:
    """Code that has a directory added after some other lines."""
    return "\n".join((*before, f"import os\nos.add_dll_directory({argument})")).encode()


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
def test_an_expression_that_is_not_worth_it_is_left_alone(argument: str) -> None:
    found: list[DllLoading] = []
    assert memory_of(lambda: found.append(follow(adding(argument)))) < 50 * MB
    assert found == [LEFT_ALONE]


@pytest.mark.parametrize(
    "lines",
    [
        [f"a{n + 1} = a{n} + a{n}" for n in range(1000)],
        [f"a{n + 1} = f'{{a{n}}}{{a{n}}}'" for n in range(1000)],
        ["while a:"] + [" a = os.path.join(a, a)"] * 1000,
        [f"def f{n}(): return f{n + 1}() + f{n + 1}()" for n in range(1000)],
        ["def f(a): return f(a) + f(a)"] + ["f(f(a))"] * 2000 + ["a = f('x')"],
        *slow(
            [f"a{n + 1} = [a{n}, a{n}]" for n in range(1000)],
            [f"a{n + 1} = os.path.join(a{n}, a{n})" for n in range(1000)],
            ["a = [a, a]" for _ in range(1000)] + ["if a == a: str(a)"],
            ["a.append(a)" for _ in range(1000)],
            ["a = a.join([a] * 9)" for _ in range(1000)],
            ["if a: a = 'x'" for _ in range(900)] + ["os.add_dll_directory(a)"] * 900,
            ["def f(a):"] + [" os.add_dll_directory(a)"] * 2000 + ["f('x')"] * 2000,
            [f"def f({','.join(f'b{n}' for n in range(2000))}): b1"] + ["f()"] * 2000,
            ["if x: 0"] + ["elif x: 0"] * 9_000,
            [" " * depth + "if x:" for depth in range(99)] + [" " * 99 + "a = 'x'"],
            ["import glob", "h = __path__[0]"] + [f"glob.glob(h + '/{'*a' * 99}')"] * 100,
            [f"import {'m' * 9_000} as m"] + ["a = m.__file__"] * 1000,
            [f"from {'m' * 9_000} import {','.join(f'b{n}' for n in range(2000))}"],
        ),
    ],
    ids=lambda lines: lines[-1][:24],
)
def test_texts_lists_and_names_cost_what_they_are_worth(lines: list[str]) -> None:
    code = adding("a1000 or a", "a0 = a = 'x'", *lines)
    found: list[DllLoading] = []
    assert memory_of(lambda: found.append(follow(code))) < 50 * MB
    assert found[0].dll_directories == ()


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
    assert follow(code) == LEFT_ALONE


@pytest.mark.parametrize("head", [b"\xef\xbb\xbf", b"# coding: latin-1\nx = '\xe9'\n"])
def test_encodings_that_spell_paths_as_they_are_are_known(head: bytes) -> None:
    assert follow(head + adding("__path__[0]")) == DllLoading(dll_directories=("demo",))


def test_what_the_parser_warns_of_is_not_shown() -> None:
    code = adding("__path__[0]", r"x = '\d'", "assert (x, 'y')", "x is 1")
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("error")
        assert follow(code) == DllLoading(dll_directories=("demo",))
    assert shown == []


def test_a_large_file_is_not_even_read() -> None:
    source = SourceFile(HERE, 50 << 20, lambda: pytest.fail("it is read"))
    assert find_loading([source], [HERE]) == LEFT_ALONE


def test_many_files_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dll_directories, "_MOST_COST", 100_000)
    code = adding("__path__[0]", *["x = 'x'"] * 20)
    paths = [f"p{number}/__init__.py" for number in range(5000)]
    sources = [SourceFile(path, len(code), lambda: code) for path in paths]
    found = find_loading(sources, paths)
    assert 10 < len(found.dll_directories) < 100
    assert len(found.dll_directories) + len(found.loading_code) == 5000


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
    found: list[DllLoading] = []
    assert calls_of(lambda: found.append(follow(text))) < 100_000
    for path in (*found[0].dll_directories, *found[0].preloaded):
        assert path.isprintable()
        assert len(path) < 1024
