"""Where a package's own Python code has Windows look for DLLs, found without running it."""

from __future__ import annotations

import ast
import sys
import tokenize
from collections.abc import Iterable
from io import BytesIO
from itertools import pairwise
from pathlib import PureWindowsPath
from typing import NamedTuple

from binary_checks.packages.inflate import BrokenDataError
from binary_checks.packages.python_code.places import Places, relative
from binary_checks.packages.python_code.statements import Statements
from binary_checks.packages.python_code.texts import without_texts
from binary_checks.packages.python_code.values import Mark, TooMuchError, Values, Within
from binary_checks.packages.sources import LOADING, Loading, Source

_LONGEST = 192 << 10  # bytes of a source that is parsed: that takes up to 1000 times as many
_MOST_BYTES = 2 << 20  # of all sources of a package together
_MOST_FILES = 400
_MOST_STEPS = 100_000  # in one file
_MOST_TOKENS = 20_000  # of one statement, where a parser may break off the process
_NOT_FOLLOWED = (
    SyntaxError, ValueError, RecursionError, MemoryError, TooMuchError, BrokenDataError,
)  # fmt: skip
_TOLD = (str, PureWindowsPath, Mark, type(None))


class _Found(NamedTuple):
    added: Values
    opened: Values


def find_loading(sources: Iterable[Source], paths: Iterable[str]) -> Loading:
    """Follow each source, those of the outermost packages first, as long as there are not too many.

    ``paths`` are those of all files of the package.
    """
    places = Places(paths)
    found: dict[str, _Found | None] = {}
    total = 0
    for source in sorted(sources, key=lambda each: (each.path.count("/"), each.path)):
        fits = source.size <= _LONGEST and total + source.size <= _MOST_BYTES
        total += source.size if fits else 0
        found[source.path] = _follow(source, places) if fits and len(found) < _MOST_FILES else None
    followed = [each for each in found.values() if each]
    directories = {path for each in followed for path in _find_directories(each.added)}
    deciding = (path for path, each in found.items() if _decides(each, directories))
    opened = {place for each in followed for value in each.opened if (place := _own(value, places))}
    return Loading(tuple(sorted(directories)), tuple(sorted(deciding)), tuple(sorted(opened)))


def _follow(source: Source, places: Places) -> _Found | None:
    """What a file adds and opens; None where it cannot be followed to its end."""
    code = Statements(source.path, places, _MOST_STEPS)
    try:
        text = source.read()
        if not _speaks_only(source.path, text):
            code.run_file(_parse(source.path, text))
    except _NOT_FOLLOWED:
        return None
    return _Found(code.added, code.opened)


def _speaks_only(path: str, text: bytes) -> bool:
    """Whether loading is mentioned in comments and docstrings alone: to parse takes far longer."""
    return path.endswith(".py") and LOADING.is_in(text) and not LOADING.is_in(without_texts(text))


def _parse(path: str, text: bytes) -> ast.Module:
    if path.endswith(".pth"):  # only these lines are run
        text = b"\n".join(line for line in text.splitlines() if line.startswith(b"import"))
    if sys.version_info < (3, 11):
        _refuse_long_statements(text)
    return ast.parse(text)


def _refuse_long_statements(text: bytes) -> None:
    """Raise ValueError where Python 3.10 could overflow its stack: ``a.b.b.b`` without end."""
    ends = [0]
    try:
        for number, token in enumerate(tokenize.tokenize(BytesIO(text).readline)):
            if token.type == tokenize.NEWLINE:
                ends.append(number)
        ends.append(number)
    except tokenize.TokenError as error:
        raise ValueError(error) from None
    if any(end - start > _MOST_TOKENS for start, end in pairwise(ends)):
        raise ValueError(_MOST_TOKENS)


def _find_directories(added: Values) -> Iterable[str]:
    for value in added:
        if isinstance(value, (str, PureWindowsPath)) and value != "":
            path = relative(value)
            if path is not None:
                yield path


def _decides(found: _Found | None, directories: set[str]) -> bool:
    """Whether only running the file tells what it adds or opens."""
    if found is None or not all(isinstance(value, _TOLD) for value in found.added):
        return True
    if Mark.UNKNOWN in found.added | found.opened:
        return True
    folders = {relative(value.directory) for value in found.opened if isinstance(value, Within)}
    return not folders <= {*directories, None}


def _own(value: object, places: Places) -> str | None:
    return places.file(str(value)) if isinstance(value, (str, PureWindowsPath)) else None
