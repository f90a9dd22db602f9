"""Where a package's own Python code has Windows look for DLLs, found without running it."""

from __future__ import annotations

import ast
import ntpath
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from binary_checks.errors import BrokenDataError, PackageError
from binary_checks.python_code.bound_names import BoundNames
from binary_checks.python_code.folding import Folder
from binary_checks.python_code.mentions import DllLoading, Opening, Openings, SourceFile
from binary_checks.python_code.parsing import LeftAloneError, ParsingBudget, parse
from binary_checks.python_code.possible_texts import SOMETHING, UNKNOWN, Texts
from binary_checks.python_code.spared_calls import find_spared_calls
from binary_checks.python_code.windows_paths import Places, relative

_LONGEST = 192 << 10  # bytes of a source that is parsed: that takes up to 1000 times as many
_MOST_BYTES = 2 << 20  # of all sources of a package together
_MOST_FILES = 400
_MOST_COST = 30_000_000  # of all of them; those of torch 2.15 cost 25 million

_ADDS = frozenset({"add_dll_directory", "AddDllDirectory"})
_LIBRARY = "LoadLibrary LoadLibraryA LoadLibraryW LoadLibraryEx LoadLibraryExA LoadLibraryExW"
_OPENS = frozenset({"CDLL", "WinDLL", "OleDLL", "PyDLL", "dlopen", *_LIBRARY.split()})
_IMPORTS = frozenset({"spec_from_file_location", "ExtensionFileLoader"})  # by name and path
_MAY_OPEN = "load_library"  # torch.ops has such a function, and so have many that open nothing


class _Found(NamedTuple):
    added: Texts
    opened: Texts


def find_loading(sources: Iterable[SourceFile], paths: Iterable[str]) -> DllLoading:
    """Read each source, those of the outermost packages first, as long as the budget lasts.

    ``paths`` are those of all files of the package.
    """
    budget = ParsingBudget(_MOST_COST)
    places = Places(paths, budget)
    found: dict[str, _Found | None] = {}
    for source, fits in choose_followed(sources):
        found[source.path] = _follow(source, places, budget) if fits else None
    followed = [each for each in found.values() if each is not None]
    added = {relative(text) for each in followed for text in each.added if UNKNOWN not in text}
    opened = {places.file(text) for each in followed for text in each.opened if UNKNOWN not in text}
    directories = {path for path in added if path is not None}
    deciding = (path for path, each in found.items() if _decides(each, directories))
    preloaded = {path for path in opened if path is not None}
    return DllLoading(tuple(sorted(directories)), tuple(sorted(deciding)), tuple(sorted(preloaded)))


def find_openings(
    sources: Iterable[SourceFile], paths: Iterable[str], called: Iterable[str] = ()
) -> Openings:
    """Find the calls that open files of the package.

    ``paths`` are those of all its files, and ``called`` the names of functions that other modules
    of the package call when they are imported.
    """
    budget = ParsingBudget(_MOST_COST)
    places, called = Places(paths, budget), frozenset(called)
    calls, left = list[Opening](), list[str]()
    for source, fits in choose_followed(sources):
        try:
            if not fits:
                raise LeftAloneError
            calls += _list_openings(source, places, budget, called)
        except (LeftAloneError, BrokenDataError, PackageError):
            left.append(source.path)
    return Openings(tuple(calls), tuple(left))


def _list_openings(
    source: SourceFile, places: Places, budget: ParsingBudget, called: frozenset[str]
) -> Iterator[Opening]:
    budget.pay(source.size)
    tree = parse(_read(source), budget)
    names, spared = BoundNames(tree, budget), find_spared_calls(tree, budget, called)
    folder = Folder(source.path, names, places, budget)
    for name, texts, call in _list_loads(names, folder):
        known = (places.file(text) for text in texts if UNKNOWN not in text)
        if call is not None and name not in _ADDS:
            yield Opening(
                source.path,
                tuple(sorted(filter(None, known))),
                tuple(sorted(_spell_patterns(texts))),
                tried=call in spared.tried,
                late=call in spared.late,
            )


def choose_followed(sources: Iterable[SourceFile]) -> Iterator[tuple[SourceFile, bool]]:
    """Each source in its turn, and whether it is followed: the others are not even read."""
    total = 0
    in_turn = sorted(sources, key=lambda each: (each.path.count("/"), each.path))
    for number, source in enumerate(in_turn):
        fits = source.size <= _LONGEST and total + source.size <= _MOST_BYTES
        fits = fits and number < _MOST_FILES
        total += source.size if fits else 0
        yield source, fits


def _follow(source: SourceFile, places: Places, budget: ParsingBudget) -> _Found | None:
    """What a file adds and opens; None where it is left alone."""
    try:
        budget.pay(source.size)
        tree = parse(_read(source), budget)
        names = BoundNames(tree, budget)
        folder = Folder(source.path, names, places, budget)
        added, opened = set[str](), set[str]()
        for name, texts, _ in _list_loads(names, folder):
            if name in _ADDS:
                added |= texts
            else:
                opened |= {text for text in texts if name != _MAY_OPEN or UNKNOWN not in text}
    except (LeftAloneError, BrokenDataError, PackageError):
        return None
    return _Found(frozenset(added), frozenset(opened))


def _spell_patterns(texts: Iterable[str]) -> set[str]:
    return set(filter(None, (_spell_pattern(text) for text in texts if UNKNOWN in text)))


def _spell_pattern(text: str) -> str:
    """A path of which a part is known at most: ``demo/libdemo_*.so``, ``*/libdemo.so``, ``*``.

    A name in part without a folder, and a folder that is none of the package's, are the system's.
    """
    folder, name = ntpath.split(text)
    if UNKNOWN in folder or text == UNKNOWN:
        return text.replace("\\", "/").replace(UNKNOWN, "*")
    place = relative(folder)
    return f"{place}/{name.replace(UNKNOWN, '*')}" if place else ""


def _read(source: SourceFile) -> bytes:
    content = source.read()
    if not source.path.endswith(".pth"):
        return content
    # Of these files Python runs only such lines.
    return b"\n".join(line for line in content.splitlines() if line.startswith(b"import"))


def _list_loads(names: BoundNames, folder: Folder) -> Iterator[tuple[str, Texts, ast.Call | None]]:
    """Each call that loads something, and its argument; what is not called may get anything."""
    for node, scope in names.calls:
        name = folder.full_name(node.func, scope).rpartition(".")[2]
        given = (*node.args, *(each.value for each in node.keywords))
        if name in {*_ADDS, *_OPENS, _MAY_OPEN} and given:
            yield name, folder.fold(given[0], scope), node
        elif name in _IMPORTS and len(given) > 1:
            yield _MAY_OPEN, folder.fold(given[1], scope), node
        elif name == "getattr":
            names_of = (each.value for each in given if isinstance(each, ast.Constant))
            yield from ((each, SOMETHING, None) for each in names_of if each in _ADDS | _OPENS)
    for each in names.named:
        name = each.attr if isinstance(each, ast.Attribute) else each.id
        if name in _ADDS | _OPENS and each not in names.used:
            yield name, SOMETHING, None


def _decides(found: _Found | None, directories: set[str]) -> bool:
    """Whether only running the file tells what it adds or opens."""
    if found is None or any(UNKNOWN in text for text in found.added):
        return True
    folders = {ntpath.dirname(text) for text in found.opened if UNKNOWN in text}
    return any(UNKNOWN in each or relative(each) not in directories for each in folders)
