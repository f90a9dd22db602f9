"""What attributes and methods of known texts, paths and lists give."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PureWindowsPath

from binary_checks.packages.python_code.library import as_items, as_path, ask, loosen, match
from binary_checks.packages.python_code.places import Places, make_absolute
from binary_checks.packages.python_code.values import (
    FOREIGN,
    UNKNOWN,
    Items,
    Method,
    Values,
    combine,
    elements,
    gather,
    known,
    unite,
)

_PLAIN = re.compile(r"[^{}]*(?:\{\w*\}[^{}]*)*")  # a format without widths, which cost memory
_ON_TEXT = {
    "lower", "upper", "casefold", "strip", "lstrip", "rstrip",
    "removeprefix", "removesuffix", "startswith", "endswith",
}  # fmt: skip
_SPLITTING = frozenset({"split", "rsplit", "partition", "rpartition", "splitlines"})
_REPLACED = 256  # characters of a text in which some are replaced: each may become a long text


def read_attribute(value: object, name: str) -> Values:
    """An attribute of a known value: of a path, what pathlib says."""
    if not isinstance(value, PureWindowsPath):
        return known(Method(of=value, name=name))
    if name in {"parent", "name", "stem", "suffix", "drive", "anchor"}:
        return known(getattr(value, name))
    if name in {"parents", "parts"}:
        return known(as_items(list(getattr(value, name))))
    return known(Method(of=value, name=name))


def call_method(method: Method, arguments: tuple[Values, ...], places: Places) -> Values:
    """Call a method of a text, a path or a list."""
    value, name = method.of, method.name
    if isinstance(value, PureWindowsPath):
        call = _PATH_METHODS.get(name)
        return call(value, arguments, places) if call else UNKNOWN
    if isinstance(value, str):
        return _call_text(value, name, arguments)
    copied = isinstance(value, Items) and name in {"copy", "values", "keys"}
    return loosen(known(value)) if copied else UNKNOWN


def _call_text(text: str, name: str, arguments: tuple[Values, ...]) -> Values:
    if name in {"encode", "decode"}:
        return known(text)
    if name == "join" and len(arguments) == 1:
        return _join_texts(text, arguments[0])
    if name in _SPLITTING:
        return combine(lambda *given: as_items(getattr(text, name)(*given)), *arguments)
    if name == "format" and _PLAIN.fullmatch(text):
        return combine(lambda *given: text.format(*map(str, given)), *arguments)
    harmless = name in _ON_TEXT or (name == "replace" and len(text) <= _REPLACED)
    return combine(getattr(text, name), *arguments) if harmless else UNKNOWN


def _join_texts(separator: str, lists: Values) -> Values:
    found = [each for each in lists if isinstance(each, Items) and each.exact]
    if len(found) != len(lists):
        return UNKNOWN
    joined = (combine(lambda *texts: separator.join(texts), *each.values) for each in found)
    return unite(joined)


def _list_path(path: PureWindowsPath, patterns: tuple[Values, ...], places: Places) -> Values:
    below = combine(lambda last: path / str(last), *patterns[:1]) if patterns else known(path / "*")
    return gather(as_path(elements(unite(match(each, places) for each in below))))


def _join_to_path(path: PureWindowsPath, parts: tuple[Values, ...], _: Places) -> Values:
    return as_path(known(path), *parts)


def _resolve_path(path: PureWindowsPath, *_: object) -> Values:
    return combine(make_absolute, known(path))


def _ask_path(path: PureWindowsPath, _: tuple[Values, ...], places: Places) -> Values:
    return ask(places.exists, known(path))


def _spell_path(path: PureWindowsPath, *_: object) -> Values:
    return known(str(path))


def _rename_path(path: PureWindowsPath, names: tuple[Values, ...], _: Places) -> Values:
    return combine(lambda name: path.with_name(str(name)), *names[:1])


def _end_path(path: PureWindowsPath, suffixes: tuple[Values, ...], _: Places) -> Values:
    return combine(lambda suffix: path.with_suffix(str(suffix)), *suffixes[:1])


_PATH_METHODS: dict[str, Callable[[PureWindowsPath, tuple[Values, ...], Places], Values]] = {
    **dict.fromkeys(("resolve", "absolute"), _resolve_path),
    **dict.fromkeys(("exists", "is_dir", "is_file"), _ask_path),
    **dict.fromkeys(("joinpath", "__truediv__"), _join_to_path),
    **dict.fromkeys(("iterdir", "glob"), _list_path),
    **dict.fromkeys(("as_posix", "__str__", "__fspath__"), _spell_path),
    **dict.fromkeys(("home", "cwd", "expanduser"), lambda *_: FOREIGN),
    "with_name": _rename_path,
    "with_suffix": _end_path,
}
