"""Conda packages: the files in ``info/``, compared with the contents of the archive.

The formats are those of conda's documentation ("Package specification") and of CEP 34 for the files
in ``info/``. All paths are relative to the prefix into which conda installs the package.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from binary_checks.errors import PackageError
from binary_checks.model import (
    BuildPath,
    CondaPackage,
    CondaPath,
    ContentStore,
    ElfFile,
    Format,
    MachOFile,
    Member,
    ObjectReader,
    Preview,
    Progress,
    ReadObject,
    Tree,
    UnreadObject,
    Visited,
    VisitRequest,
    format_of_name,
    object_kinds,
)
from binary_checks.packages.conda_index import INDEX, Index, find_layout, parse_json, read_claims
from binary_checks.packages.distributions import sort_objects
from binary_checks.python_code.dll_directories import LoadingSearch, is_source
from binary_checks.safe_text import elide

SUFFIXES = (".conda", ".tar.bz2")
_PATHS = "info/paths.json"
_MIB = 1 << 20
_LONGEST = {INDEX: 4 * _MIB, _PATHS: 64 * _MIB}

_WINDOWS_DIRECTORIES = ("Library/mingw-w64/bin", "Library/usr/bin", "Library/bin", "Scripts", "bin")
"""Folders that conda's python.exe adds to the search for DLLs, in addition to its own folder."""


def strip_suffix(label: str) -> str:
    """Return the name, version and build in the name of a conda package's file."""
    return next(label.removesuffix(suffix) for suffix in SUFFIXES if label.endswith(suffix))


def recognises(label: str, look: Callable[[], Tree]) -> bool:
    """Return whether the file has the suffix of a conda package."""
    del look
    return label.endswith(SUFFIXES)


def preview(tree: Tree, reader: ObjectReader) -> Preview:
    """Return all formats: only decompressing the package would show which of them occur."""
    del tree, reader
    return Preview(kind=CondaPackage, formats=frozenset(map(Format, object_kinds())))


def read(
    tree: Tree,
    reader: ObjectReader,
    progress: Progress | None = None,
    store: ContentStore | None = None,
) -> CondaPackage:
    """Read a conda package from start to end. Raises PackageError if it is not a conda package."""
    search = LoadingSearch(_is_for_windows)
    scan = BuildPathScan()
    wanted = VisitRequest(texts=_LONGEST, watches=(scan.watch, search.watch), store=store)
    visited = tree.visit(reader, wanted, progress)
    texts = {each.member.archive_name: each for each in visited}
    index = Index.read(tree.label, texts.get(INDEX))
    rows, faults = _read_paths(texts.get(_PATHS))
    members = [each.member for each in visited]
    found = [_relocate(item, rows) for each in visited for item in each.objects]
    claims = read_claims(index)
    layout = find_layout(index, claims, members)
    loading = search.conclude(members)
    return CondaPackage(
        path=tree.path,
        name=index.name,
        version=index.version,
        size=tree.size,
        layout=layout,
        claims=claims,
        members=tuple(_compare_member(member, rows) for member in members),
        **sort_objects(found),
        archive_faults=(
            *tree.faults,
            *faults,
            *_judge_name(tree.label, index),
            *_find_missing(rows or {}, members),
        ),
        ambiguities=tree.ambiguities,
        dll_directories=(
            *loading.dll_directories,
            *(_WINDOWS_DIRECTORIES if index.system == "windows" else ()),
        ),
        loading_code=loading.loading_code,
        build=index.build,
        subdir=index.subdir,
        noarch=index.noarch,
        depends=index.depends,
        constrains=index.constrains,
        rows=tuple(
            CondaPath(path=path, placeholder=row.placeholder, mode=row.mode)
            for path, row in (rows or {}).items()
            if row.placeholder
        ),
        build_paths=(*scan.results(), *_find_odd(tree, reader, rows or {})),
    )


def _find_odd(tree: Tree, reader: ObjectReader, rows: _Rows) -> Iterator[BuildPath]:
    """Find placeholders of unusual forms. The files that contain them are read a second time."""
    odd = {
        path: row.placeholder.encode()
        for path, row in rows.items()
        if row.placeholder and not any(each in row.placeholder.encode() for each in PLACEHOLDERS)
    }
    if odd:
        scan = BuildPathScan(dict.fromkeys(odd.values()))
        only = [entry for entry in tree.entries() if entry.name in odd]
        tree.visit(reader, VisitRequest(only=only, hashed=False, watches=(scan.watch,)))
        yield from (each for each in scan.results() if each.prefix)


def _is_for_windows(name: str) -> bool:
    """Return whether a file is Python code for Windows, where code may add folders for DLLs."""
    return name.startswith("Lib/site-packages/") and is_source(name)


class _Row(NamedTuple):
    """The row of one file in info/paths.json."""

    kind: str
    sha256: str = ""
    size: int | None = None
    placeholder: str = ""
    mode: str = "text"


_Rows = Mapping[str, _Row]


def _read_paths(text: Visited | None) -> tuple[_Rows | None, tuple[str, ...]]:
    """Return the rows of info/paths.json by path, or None if it has none, and their faults."""
    if text is None:
        return None, (f"it has no {_PATHS}: the files that it should contain are unknown",)
    try:
        stated = parse_json(text)
        listed = stated.get("paths") if isinstance(stated, dict) else None
        if not isinstance(listed, list):
            raise ValueError("it lists no paths")
    except ValueError as error:
        return None, (f"{_PATHS} cannot be read: {error}",)
    rows: dict[str, _Row] = {}
    faults: list[str] = []
    for number, each in enumerate(listed, 1):
        path = each.get("_path") if isinstance(each, dict) else None
        if not isinstance(path, str):
            faults.append(f"{_PATHS}: row {number} names no path")
            continue
        if path in rows:
            faults.append(f"{elide(path)}: {_PATHS} lists it more than once")
        rows[path] = _read_row(each)
    return rows, tuple(faults)


def _read_row(stated: Mapping[str, Any]) -> _Row:
    size = stated.get("size_in_bytes")
    names = ("path_type", "sha256", "prefix_placeholder", "file_mode")
    texts = (stated.get(key) for key in names)
    kind, digest, placeholder, mode = (each if isinstance(each, str) else "" for each in texts)
    size = size if isinstance(size, int) else None
    return _Row(kind, digest.lower(), size, placeholder, mode or "text")


def _compare_member(member: Member, rows: _Rows | None) -> Member:
    """Add the differences from info/paths.json to a member's faults.

    info/paths.json does not list the files in ``info/``.
    """
    if rows is None or member.is_directory or member.archive_name.startswith("info/"):
        return member
    row = rows.get(member.archive_name)
    faults = tuple(_compare(member, row)) if row else (f"{_PATHS} does not list it",)
    return replace(member, faults=(*member.faults, *faults)) if faults else member


def _compare(member: Member, row: _Row) -> Iterator[str]:
    if member.is_symlink or row.kind == "softlink":
        if not member.is_symlink or row.kind != "softlink":
            found = "a symbolic link" if member.is_symlink else "a file"
            yield f"it is {found}, but {_PATHS} says {elide(row.kind)!r}"
        return  # the target of a link may be in another package
    if not row.sha256:
        yield f"{_PATHS} states no hash"
    elif member.sha256 and row.sha256 != member.sha256:
        yield f"its SHA-256 is {member.sha256}, but {_PATHS} states {elide(row.sha256)}"
    if row.size is not None and row.size != member.size:
        yield f"it has {member.size} bytes, but {_PATHS} states {row.size}"


def _find_missing(rows: _Rows, members: Iterable[Member]) -> Iterator[str]:
    held = {member.archive_name.removesuffix("/") for member in members}
    for path, row in rows.items():
        if path not in held and row.kind != "directory":
            yield f"{elide(path)}: {_PATHS} lists it, but the archive does not contain it"


def _judge_name(label: str, index: Index) -> Iterator[str]:
    stem = strip_suffix(label)
    stated = f"{index.name}-{index.version}-{index.build}"
    if stem != stated:
        yield f"{INDEX} describes {elide(stated)}, but the file's name does not match"


_Read = TypeVar("_Read", bound=ReadObject)


def _relocate(item: ReadObject, rows: _Rows | None) -> ReadObject:
    """Return the object with the placeholder replaced by the prefix, as conda installs it."""
    row = rows.get(item.path) if rows else None
    if row is None or not row.placeholder or not isinstance(item, ElfFile | MachOFile):
        return item
    move = partial(_from_object, placeholder=row.placeholder.rstrip("/"), directory=item.directory)
    needed = tuple(replace(need, name=move(need.name, "@loader_path")) for need in item.needed)
    if isinstance(item, ElfFile):
        paths = (tuple(move(each, "$ORIGIN") for each in p) for p in (item.rpath, item.runpath))
        rpath, runpath = paths
        return replace(item, rpath=rpath, runpath=runpath)
    rpaths = tuple(move(each, "@loader_path") for each in item.rpaths)
    return replace(item, needed=needed, rpaths=rpaths)


def _from_object(text: str, token: str, *, placeholder: str, directory: str) -> str:
    """Write a path below the placeholder relative to the object: ``$ORIGIN/../lib``."""
    if text != placeholder and not text.startswith(f"{placeholder}/"):
        return text
    place = text.removeprefix(placeholder).strip("/")
    return f"{token}/{posixpath.relpath(place or '.', directory or '.')}"


# The outline: only the metadata of a package, without the files to install.

_PACKED = "the files to install are in an archive without a directory"


def outline(tree: Tree, reader: ObjectReader) -> CondaPackage:
    """Read only ``info/``; the members are the files that info/paths.json lists.

    The objects are not read: the archive that contains them has no directory of members.
    """
    visited = tree.visit(reader, VisitRequest(texts=_LONGEST))
    texts = {each.member.archive_name: each for each in visited}
    index = Index.read(tree.label, texts.get(INDEX))
    claims = read_claims(index)
    rows, faults = _read_paths(texts.get(_PATHS))
    if rows is None and _PATHS in texts:
        raise PackageError(f"{tree.label}: {faults[0]}")
    listed = [
        Member(path=path, archive_name=path, size=row.size or 0)
        for path, row in (rows or {}).items()
    ]
    members = (*(each.member for each in visited), *listed)
    return CondaPackage(
        path=tree.path,
        name=index.name,
        version=index.version,
        size=tree.size,
        layout=find_layout(index, claims, members),
        claims=claims,
        members=members,
        unread=tuple(
            UnreadObject(path=each.path, format=form, reason=_PACKED)
            for each in listed
            if (form := format_of_name(each.path)) is not None
        ),
        archive_faults=(*tree.faults, *_judge_name(tree.label, index)),
        ambiguities=tree.ambiguities,
    )


# Paths of the build machine, found in the bytes of a package while they are streamed.
#
# conda-build and rattler-build pad the prefix in which they build with ``_placehold`` to 255
# characters; older tools used ``anaconda1anaconda2anaconda3``. Bytecode is skipped, because no
# program opens the paths in it.

PLACEHOLDERS = (b"_placehold_placehold", b"anaconda1anaconda2anaconda3")
_OBJECTS = (
    b"\x7fELF",
    b"MZ",
    b"\xcf\xfa\xed\xfe",
    b"\xce\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"!<arch>",
)
_BYTECODE = (".pyc", ".pyo")
_BEFORE = 400  # bytes of a path before the word by which it is found; no prefix is longer
_BEHIND = 1 << 16  # bytes of text after which the search for a NUL ends
_SHOWN = 300  # characters of a path
# first bytes of a file; if they contain no NUL, the file is text: the same rule as git's
_BEGINNING = 8000
_PART = rb"\0-\x20\"'`=:;,<>()\[\]{}|\x7f-\xff"
_FROM_WORD = re.compile(rb"[^" + _PART + rb"]*")
_DELIMITER = re.compile(rb"[" + _PART + rb"]")
_TEXT = re.compile(rb"[\t\n\r\x20-\x7e\x80-\xff]*")
_LONGEST_PATH = 4096
_LONGEST_WORD = 64
_SHEBANG = re.compile(rb"#![ \t]*([^\s]{1,4096})")
_VARIABLE_ENDS = (b"}", b")", b"%")
_ABSOLUTE = re.compile(r"[/\\]")
_PREFIX = re.compile(r".*?(?:placehold[\w.-]*|anaconda1anaconda2anaconda3)(?=[/\\]|$)")


class BuildPathScan:
    """Watches the members of one package; ``words`` are also searched in every file."""

    def __init__(self, words: Iterable[bytes] = ()) -> None:
        self._words = tuple(words)
        self._files: dict[str, _File] = {}

    def watch(self, name: str) -> Callable[[bytes], object] | None:
        """Return a callback for the content of the named member, or None to skip the member."""
        if name.startswith("info/") or name.endswith(_BYTECODE):
            return None
        file = self._files[name] = _File(self._words)
        return file.see

    def results(self) -> Iterator[BuildPath]:
        """Yield the paths found in each file, once all files were streamed."""
        for name, file in sorted(self._files.items()):
            yield from file.describe(name)


class _File:
    """The paths found in one file, and the unfinished end of its content."""

    def __init__(self, words: tuple[bytes, ...]) -> None:
        self._own = re.compile("|".join(re.escape(word.decode()) for word in words) or "(?!)")
        self._words = (*PLACEHOLDERS, *words)
        self._begun = False
        # bytes to search again, and the number of these that were searched
        self._rest, self._done = b"", 0
        self._binary, self._interpreter = False, ""
        self._found: dict[str, BuildPath] = {}  # by prefix

    def see(self, piece: bytes) -> None:
        """Search the next piece, but not its end, which may continue in the following piece."""
        if piece and not self._begun:
            self._begun = True
            script = _SHEBANG.match(piece)
            self._interpreter = script[1].decode("utf-8", "replace") if script else ""
            self._binary = piece.startswith(_OBJECTS) or b"\0" in piece[:_BEGINNING]
        self._look(self._rest + piece, whole=False)

    def describe(self, name: str) -> Iterator[BuildPath]:
        """Search the end of the file, and yield the paths found in it."""
        self._look(self._rest, whole=True)
        self._rest = b""
        for found in self._found.values():
            yield replace(found, path=name, binary=self._binary)

    def _look(self, content: bytes, *, whole: bool) -> None:
        done, known = self._done, _Words(content, self._words)
        text_end = 0
        while (at := known.find(done)) >= 0:
            begin = at - len(_before(content, at))
            end = _FROM_WORD.match(content, at, at + _BEHIND).end()  # type: ignore[union-attr]
            if self._binary and at >= text_end:
                text_end = _TEXT.match(content, at, at + _BEHIND).end()  # type: ignore[union-attr]
            last = max(end, text_end if self._binary else 0)
            if last == len(content) and not whole and last - at < _BEHIND:
                cut = max(begin - 1, 0)  # the character before may end a variable
                self._rest, self._done = content[cut:], at - cut
                return
            cramped = self._binary and content[text_end : text_end + 1] != b"\0"
            self._note(content, begin, end, cramped=cramped)
            done = max(end, at + 1)
        done = max(done, len(content) - _LONGEST_WORD)
        cut = max(done - _BEFORE, 0)
        self._rest, self._done = content[cut:], done - cut

    def _note(self, content: bytes, begin: int, end: int, *, cramped: bool) -> None:
        text = content[begin : min(end, begin + _LONGEST_PATH)].decode("utf-8", "replace")
        if not _ABSOLUTE.match(text) or content[max(begin - 1, 0) : begin] in _VARIABLE_ENDS:
            return  # the word is not part of a path, or follows a variable
        match = self._own.match(text) or _PREFIX.match(text)
        prefix = match[0] if match else ""
        found = self._found.get(prefix)
        if found is not None:
            count, cramps = found.count + 1, found.cramped + cramped
            self._found[prefix] = replace(found, count=count, cramped=cramps)
        else:
            self._found[prefix] = BuildPath(
                path="",
                text=text[:_SHOWN],
                prefix=prefix,
                cramped=int(cramped),
                shebang=text == self._interpreter,
            )


class _Words:
    """The next offsets of some words; content is searched only once for each word."""

    def __init__(self, content: bytes, words: Iterable[bytes]) -> None:
        self._content = content
        self._next = {word: content.find(word) for word in words}

    def find(self, start: int) -> int:
        """Return the next offset of any word, or -1 if there is none."""
        for word, place in self._next.items():
            if 0 <= place < start:
                self._next[word] = self._content.find(word, start)
        return min((place for place in self._next.values() if place >= 0), default=-1)


def _before(content: bytes, at: int) -> bytes:
    """Return the part of the path before the word, from its first slash."""
    part, begin = content[max(at - _BEFORE, 0) : at], 0
    for delimiter in _DELIMITER.finditer(part):
        begin = delimiter.end()
    part = part[begin:]
    slashes = [place for place in (part.find(b"/"), part.find(b"\\")) if place >= 0]
    return part[min(slashes) :] if slashes else b""
