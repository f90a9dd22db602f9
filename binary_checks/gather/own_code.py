"""Reads a package's own Python code once more, for the names of the objects in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from fnmatch import fnmatchcase
from functools import partial

from binary_checks.errors import BinaryChecksError, TooLarge
from binary_checks.gather.member_contents import find_entry
from binary_checks.knowledge.nvidia_names import is_driver_library
from binary_checks.model import CodeNames, Edge, Kind, Linkage, Member, Package
from binary_checks.model.protocols import Source, Tree, TreeEntry
from binary_checks.model.python_modules import ImportOpenings, is_extension, parse_extension_name
from binary_checks.python_code.dll_directories import find_openings
from binary_checks.python_code.loading_words import LoadingWords, read_words
from binary_checks.python_code.mentions import OPENING, Openings, SourceFile, is_source
from binary_checks.python_code.named_files import FileNames, NameSearch
from binary_checks.python_code.tried_imports import TriedImports

_MOST = 96 << 20  # bytes of all sources together; torch 2.15 has 33 MiB
_CALLED = re.compile(rb"^(?:\w+ *= *)?(?:\w+\.)*(\w{1,128})\(", re.MULTILINE)
"""Functions that a module calls when it is imported, as far as no line around it is indented."""
_SCRIPT = 64 << 10  # bytes of a script without an ending
_LOADED = (Kind.SHARED, Kind.EXECUTABLE)


def read_code_names(package: Package, source: Source) -> CodeNames:
    """Which objects the package's code names, among those that are no extension modules.

    What cannot be read is said in the answer, and nothing is raised for it.
    """
    candidates = dict(_find_candidates(package))
    if not candidates:
        return CodeNames()
    try:
        with closing(source.open()) as tree:
            return _search(package, tree, candidates)
    except (BinaryChecksError, OSError) as error:
        return CodeNames(unread=str(error))


def _find_candidates(package: Package) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What something else than an import statement must open, with its names."""
    needed = {need.name.rpartition("/")[2] for item in package.objects for need in item.needed}
    for item in package.objects:
        names = (item.file_name, item.name.rpartition("/")[2])
        grafted = item.file_name in needed and ".libs/" in item.path
        if item.kind in _LOADED and not grafted and not is_extension(item):
            yield package.layout.shorten(item.path), tuple(filter(None, names))


def _search(package: Package, tree: Tree, candidates: Mapping[str, tuple[str, ...]]) -> CodeNames:
    layout, search = package.layout, NameSearch(FileNames(candidates))
    for path, content in _read_sources(package, tree):
        search.see(path, content)
    found = search.conclude()
    return CodeNames(
        named=frozenset(map(layout.place, found.named)),
        completed=frozenset(map(layout.place, found.completed)),
        guided=frozenset(map(layout.place, found.guided)),
        modules=found.modules,
    )


def find_import_openings(package: Package, source: Source) -> ImportOpenings:
    """Which objects the package's code opens by their paths, and when.

    Of an opening whose name only running it tells, those count that the source spells out.
    """
    opening: dict[str, SourceFile] = {}
    called: set[str] = set()
    candidates = {
        package.layout.shorten(item.path): (item.file_name,)
        for item in package.objects
        if item.kind is Kind.SHARED
        and ".libs/" not in item.path
        and not is_driver_library(item.file_name)  # so spelled, it is the user's
    }
    paths = tuple(package.layout.shorten(member.path) for member in package.members)
    place = package.layout.place
    try:
        with closing(source.open()) as tree:
            for path, content in _read_sources(package, tree):
                called.update(name.decode() for name in _CALLED.findall(content))
                if OPENING.is_in(content):
                    opening[path] = SourceFile(path, len(content), partial(bytes, content))
        found = find_openings(opening.values(), paths, called)
        return _sort_openings(found, opening, FileNames(candidates), place)
    except (BinaryChecksError, OSError):
        return ImportOpenings(unfollowed=frozenset(map(place, candidates)))


def _sort_openings(
    found: Openings,
    sources: Mapping[str, SourceFile],
    names: FileNames,
    place: Callable[[str], str],
) -> ImportOpenings:
    """Sort the files by when they are opened. Raises TooLarge."""
    spelled = {
        path: _spell_out(sources[path], names)
        for path in dict.fromkeys((*(each.source for each in found.calls), *found.left))
    }
    demanded, tried, late = set[str](), set[str](), set[str]()
    for each in found.calls:
        words = spelled[each.source]
        names.pay(len(words) * len(each.patterns))
        guessed = (path for path in words if any(fnmatchcase(path, p) for p in each.patterns))
        chosen = late if each.late else tried if each.tried else demanded
        chosen.update(each.paths, guessed)
    unfollowed = frozenset().union(*(spelled[path] for path in found.left))
    return ImportOpenings(
        demanded=frozenset(map(place, demanded)),
        tried=frozenset(map(place, tried - demanded)),
        later=frozenset(map(place, late - demanded)),
        unfollowed=frozenset(map(place, unfollowed - demanded)),
    )


def _spell_out(source: SourceFile, names: FileNames) -> frozenset[str]:
    """The files that one source names. Raises TooLarge."""
    search = NameSearch(names)
    search.see(source.path, source.read())
    found = search.conclude()
    return found.named | found.completed


def find_tried(package: Package, source: Source, linkage: Linkage) -> frozenset[str]:
    """Extension modules that lack a library, and that the package imports only if they load."""
    lacking = {edge.path for edge in linkage.edges if _is_foreign(edge)}
    shorten = package.layout.shorten
    names = {
        item.path: parse_extension_name(shorten(item.path))
        for item in package.objects
        if item.path in lacking and is_extension(item)
    }
    modules = {path: name.module for path, name in names.items() if name is not None}
    if not modules:
        return frozenset()
    search = TriedImports(frozenset(modules.values()), package.size)
    try:
        with closing(source.open()) as tree:
            for path, content in _read_sources(package, tree):
                search.see(path, content)
    except (BinaryChecksError, OSError):
        return frozenset()
    tried = search.conclude()
    return frozenset(path for path, module in modules.items() if module in tried)


def read_loading_words(package: Package, source: Source) -> LoadingWords:
    """Read what the package's sources import.

    Sources that cannot be read may load anything: nobody knows that they do not.
    """
    try:
        with closing(source.open()) as tree:
            return read_words(_read_sources(package, tree))
    except (BinaryChecksError, OSError) as error:
        return LoadingWords(imports=frozenset(), loading=f"not read: {error}", everywhere=False)


def _is_foreign(edge: Edge) -> bool:
    return edge.resolved is None and not (edge.elsewhere or edge.weak or edge.delayed)


def _read_sources(package: Package, tree: Tree) -> Iterator[tuple[str, bytes]]:
    """The package's code: Python, and the scripts beside its programs. Raises TooLarge."""
    objects = {item.path for item in package.objects}
    entries: list[tuple[str, TreeEntry]] = []  # two members may have one path
    for member in package.members:
        if member.path in objects or member.is_directory or member.target:
            continue
        path = package.layout.shorten(member.path)
        entry = find_entry(tree, member, package.layout) if _is_code(member, path) else None
        if entry is not None:
            entries.append((path, entry))
    if sum(entry.size for _, entry in entries) > _MOST:
        raise TooLarge(f"its own code has more than {_MOST >> 20} MiB")
    yield from read_whole(tree, entries)


def read_whole(
    tree: Tree, entries: Collection[tuple[str, TreeEntry]]
) -> Iterator[tuple[str, bytes]]:
    """The contents of entries by names of the caller's, in the order that costs the tree least."""
    names = {id(entry): name for name, entry in entries}
    for entry, pieces in tree.contents([entry for _, entry in entries]):
        yield names[id(entry)], b"".join(pieces)


def _is_code(member: Member, path: str) -> bool:
    return is_source(path) or _is_script(member)


def _is_script(member: Member) -> bool:
    name = member.path.rpartition("/")[2]
    return (
        member.size <= _SCRIPT
        and ("." not in name or name.endswith(".sh"))
        and bool(member.mode & 0o100 or ".data/scripts/" in member.archive_name)
    )
