"""Installed distributions, as their RECORD lists them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from packaging.utils import canonicalize_name

from binary_checks.errors import PackageError
from binary_checks.model import (
    ContentStore,
    InstalledPackage,
    Layout,
    Member,
    ObjectReader,
    Preview,
    Progress,
    RecordRow,
    Tree,
    TreeEntry,
    Visited,
    VisitRequest,
    decode_hash,
    hash_record,
    is_installers,
)
from binary_checks.packages import distributions as wheel_texts
from binary_checks.packages.distributions import (
    DIST_INFO,
    InstallTarget,
    ReadMembers,
    assemble,
    read_members,
)
from binary_checks.packages.wheel import lay_out, read_tags
from binary_checks.python_code.dll_directories import DllLoading
from binary_checks.trees.members import find_formats

LABEL = "installed:"
"""Prefix of the labels of installed packages, before the name."""


def recognises(label: str, look: Callable[[], Tree]) -> bool:
    """Return whether the label names an installed package, and the tree is a metadata folder."""
    return label.startswith(LABEL) and look().path.name.endswith(DIST_INFO)


def preview(tree: Tree, reader: ObjectReader) -> Preview:
    """Look at RECORD and the first bytes of the files that it lists."""
    own = _list_own(tree)
    return Preview(kind=InstalledPackage, formats=find_formats(tree, own.entries, reader))


def read(
    tree: Tree,
    reader: ObjectReader,
    progress: Progress | None = None,
    store: ContentStore | None = None,
) -> InstalledPackage:
    """Read every file that RECORD lists. Raises PackageError if there is no RECORD."""
    return _read(tree, reader, progress, store, hashed=True)


def read_unhashed(tree: Tree, reader: ObjectReader) -> InstalledPackage:
    """Read the objects of a package next to the judged one, without hashing files."""
    return _read(tree, reader, None, None, hashed=False)


def survey(tree: Tree) -> InstalledPackage:
    """Check that every file exists and has its size, but read none: the result has no objects."""
    own, texts = _list_own(tree), _read_texts(tree)
    layout = _lay_out(tree, texts)
    visited = [Visited(_describe(entry, layout)) for entry in own.entries]
    return _assemble(tree, own, texts, ReadMembers(visited, DllLoading()), hashed=False)


def _read(
    tree: Tree,
    reader: ObjectReader,
    progress: Progress | None,
    store: ContentStore | None,
    *,
    hashed: bool,
) -> InstalledPackage:
    own, texts = _list_own(tree), _read_texts(tree)
    landing = InstallTarget(_lay_out(tree, texts), read_tags(texts.wheel))
    wanted = VisitRequest(place=landing.layout.place, only=own.entries, hashed=hashed, store=store)
    reading = read_members(tree, reader, wanted, landing, progress)
    return _assemble(tree, own, texts, reading, hashed=hashed)


def hash_rows(tree: Tree) -> str:
    """Return the hash of RECORD's rows, which is the same as for the wheel's RECORD."""
    return hash_record(tree.path.name, _read_record(tree)[0])


class _Own(NamedTuple):
    """The package's own files in RECORD, without files that the installer added."""

    record: tuple[RecordRow, ...]
    record_faults: tuple[str, ...]
    rows: Sequence[RecordRow]
    entries: Sequence[TreeEntry]  # one entry for each row


def _list_own(tree: Tree) -> _Own:
    (record, faults), about = _read_record(tree), tree.path.name
    rows = [row for row in record if not is_installers(about, row.path, row.hash)]
    found = ((row, tree.find(row.path)) for row in rows)
    listed = [(row, entry) for row, entry in found if entry is not None]
    return _Own(record, faults, [row for row, _ in listed], [entry for _, entry in listed])


def _read_record(tree: Tree) -> tuple[tuple[RecordRow, ...], tuple[str, ...]]:
    _refuse_editable(tree)
    content = _read_text(tree, "RECORD", wheel_texts.LONGEST["RECORD"])
    rows, faults = wheel_texts.read_record(content)
    if rows is None:
        raise PackageError(f"{tree.label}: it has no RECORD, so its files are not known")
    return tuple({row.path: row for row in rows}.values()), faults


def _read_text(tree: Tree, name: str, most: int) -> bytes | None:
    return wheel_texts.read_text(tree, f"{tree.path.name}/{name}", most)


def _refuse_editable(tree: Tree) -> None:
    content = _read_text(tree, "direct_url.json", 1 << 20)
    try:
        origin = json.loads(content or b"{}")
        editable, url = origin.get("dir_info", {}).get("editable"), origin.get("url")
    except (ValueError, AttributeError, RecursionError):
        editable, url = False, ""
    if editable:
        raise PackageError(f"{tree.label}: {describe_editable(str(url))}")


def describe_editable(where: str) -> str:
    """Describe an editable install, and what to judge instead."""
    return (
        f"an editable install of {where or 'a project elsewhere'}, which contains its files; "
        "build a wheel and name the wheel, or name the folder with the object files"
    )


def _read_texts(tree: Tree) -> wheel_texts.Texts:
    longest = {name: most for name, most in wheel_texts.LONGEST.items() if name != "RECORD"}
    return wheel_texts.read_texts({name: _read_text(tree, name, longest[name]) for name in longest})


def _lay_out(tree: Tree, texts: wheel_texts.Texts) -> Layout:
    """Return the layout of the package's wheel, whatever site-packages this environment has.

    Thus a wheel and its installed copy have the same facts, and facts stated for the wheel also
    apply to the copy.
    """
    return lay_out(tree.label.removeprefix(LABEL), read_tags(texts.wheel))


def _describe(entry: TreeEntry, layout: Layout) -> Member:
    """Describe a file by its row in RECORD, without reading the file."""
    return Member(
        path=layout.place(entry.name),
        archive_name=entry.stored,
        size=entry.size,
        compressed_size=entry.compressed_size,
        mode=entry.mode,
        faults=entry.faults,
    )


def _assemble(
    tree: Tree, own: _Own, texts: wheel_texts.Texts, reading: ReadMembers, *, hashed: bool
) -> InstalledPackage:
    pairs = zip(own.rows, reading.visited, strict=True)
    visited = [_compare(row, each, hashed=hashed) for row, each in pairs]
    stated = {key.lower(): value for key, value in reversed(texts.metadata)}
    faults = (fault for found in texts.faults.values() for fault in found)
    return assemble(
        InstalledPackage,
        reading._replace(visited=visited),
        texts._replace(record=own.record, record_faults=own.record_faults),
        path=tree.path,
        name=str(canonicalize_name(stated.get("name") or tree.label.removeprefix(LABEL))),
        version=stated.get("version", ""),
        size=sum(each.member.size for each in visited),
        archive_faults=(*faults, *own.record_faults),
        layout=_lay_out(tree, texts),
        tags=read_tags(texts.wheel),
        dist_info=tree.path.name,
    )


def _compare(row: RecordRow, each: Visited, *, hashed: bool) -> Visited:
    """Add the differences from RECORD to a member's faults.

    If files are not hashed, assume the hash in RECORD.
    """
    member, stated = each.member, decode_hash(row.hash)
    if member.faults and not (hashed and member.sha256):
        return each  # the file was not read
    digest = member.sha256 if hashed else stated
    faults = (*member.faults, *_find_changes(row, stated, member.size, digest))
    return each._replace(member=replace(member, sha256=digest, faults=faults))


def _find_changes(row: RecordRow, stated: str, size: int, digest: str) -> list[str]:
    if row.size is not None and size != row.size:
        return [f"it has {size} bytes, and RECORD says {row.size}: it was changed"]
    if stated and digest != stated:
        return ["it is not what RECORD says: it was changed after the installation"]
    return []
