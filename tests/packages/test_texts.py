"""Comments and docstrings are told from code as Python itself tells them."""

from __future__ import annotations

import io
import tokenize
from pathlib import Path

import pytest

import binary_checks
from binary_checks.packages.dll_directories import find_loading
from binary_checks.packages.python_code.texts import without_texts
from binary_checks.packages.sources import Loading, Source

OWN = sorted(Path(binary_checks.__file__).parent.rglob("*.py"))


def _expected(code: str) -> str:
    """The code without these tokens, by Python's own tokenizer."""
    lines = code.splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(code).readline))):
        text = token.string.lstrip("rbuRBU")
        if token.type == tokenize.COMMENT or text.startswith(('"""', "'''")):
            (first, begin), (last, end) = token.start, token.end
            begin += len(token.string) - len(text)
            lines[first - 1 : last] = [lines[first - 1][:begin] + lines[last - 1][end:]]
    return "".join(lines)


def test_all_of_our_own_code_is_told_from_its_texts() -> None:
    assert len(OWN) > 100
    for path in OWN:
        code = path.read_text(encoding="utf-8")
        assert without_texts(code.encode()).decode() == _expected(code), path


@pytest.mark.parametrize(
    ("code", "left"),
    [
        (b"a = '#' # b", b"a = '#' "),
        (b"a = \"'''\"\nb # '''", b"a = \"'''\"\nb "),
        (b"'''a\\''' b''' c", b" c"),
        (b"\"\"\" ''' \"\"\" + x + ''' \"\"\" '''", b" + x + "),
        (b"a = 'b\\\nc' # d", b"a = 'b\\\nc' "),
        (b"a = 'b\\\r\n# c'; d # e\r\n", b"a = 'b\\\r\n# c'; d \r\n"),
        (b"# a\rb # c\rd", b"\rb \rd"),
        (b"f'''{a}''' + Rb'''b'''", b"f'''{a}''' + Rb"),
        (b'fr"""{a("b")}""" # c', b'fr"""{a("b")}""" '),
        (b"a = 'no end\nb # c", b"a = 'no end\nb "),
        (b"'''no end", b""),
        (b"'''no end\\", b""),
        (b"'\\", b"'\\"),
    ],
)
def test_quotes_within_quotes_are_none(code: bytes, left: bytes) -> None:
    assert without_texts(code) == left


@pytest.mark.parametrize("piece", [b'"\\', b"'''", b"'", b'""', b"\\", b"#", b"\"'"])
def test_what_never_ends_is_gone_through_once(piece: bytes) -> None:
    assert len(without_texts(piece * 100_000)) <= 100_000 * len(piece)


@pytest.mark.parametrize(
    ("code", "deciding"),
    [
        ("'''Call ctypes.CDLL(x).'''\nx(", ()),
        ("# ctypes.CDLL(x)\nx = {", ()),
        ("'''Call it.'''\nctypes.CDLL(x)", ("demo/a.py",)),
        ("# Call it.\rctypes.CDLL(x)", ("demo/a.py",)),
        ("f'''{ctypes.CDLL(x)}'''", ("demo/a.py",)),
        ("ctypes.CDLL(", ("demo/a.py",)),
    ],
)
def test_what_is_only_spoken_of_decides_nothing(code: str, deciding: tuple[str, ...]) -> None:
    source = Source("demo/a.py", len(code), code.encode)
    assert find_loading([source], ["demo/a.py"]) == Loading(loading_code=deciding)
