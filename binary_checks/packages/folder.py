"""Reads a folder with object files: an environment, or what a build has put into one place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

from packaging.tags import Tag

from binary_checks.errors import PackageError
from binary_checks.model.objects import format_of_name
from binary_checks.model.packages import Layout, ObjectFolder
from binary_checks.model.protocols import (
    Keeper,
    ObjectReader,
    Preview,
    Progress,
    Tree,
    TreeEntry,
    Wanted,
)
from binary_checks.packages.distributions import Landing, read_members
from binary_checks.packages.loose_objects import assemble
from binary_checks.trees.loose_file import begins_object
from binary_checks.trees.members import find_formats

_SITE_PACKAGES = re.compile(r"(?:lib(?:64)?/(?:python|pypy)\d\.\d+t?|Lib)/site-packages(?=/)")
_ON_WINDOWS = (Tag("py3", "none", "win_amd64"),)
"""Of any package for Windows: then its code is searched for the DLLs that it opens."""


def recognises(label: str, look: Callable[[], Tree]) -> bool:
    """Whether it is a folder with a file that is called like a library, or else is a program."""
    if not label.endswith("/"):
        return False
    tree, entries = look(), look().entries()
    called = any(format_of_name(entry.name) is not None for entry in entries)
    return called or any(map(begins_object, tree.heads(e for e in entries if not e.faults)))


def preview(tree: Tree, reader: ObjectReader) -> Preview:
    """Look at the first bytes of its files."""
    return Preview(kind=ObjectFolder, formats=find_formats(tree, tree.entries(), reader))


def read(
    tree: Tree,
    reader: ObjectReader,
    progress: Progress | None = None,
    keeper: Keeper | None = None,
) -> ObjectFolder:
    """Read every file. Raises PackageError where the folder cannot be listed."""
    entries = tree.entries()
    layout = find_layout(entries)
    tags = _ON_WINDOWS if any(e.name.lower().endswith((".pyd", ".dll")) for e in entries) else ()
    wanted = Wanted(only=entries, keeper=keeper)
    reading = read_members(tree, reader, wanted, Landing(layout, tags), progress)
    package = assemble(
        ObjectFolder,
        reading.visited,
        layout,
        path=tree.path,
        name=tree.label.rstrip("/"),
        size=sum(entry.size for entry in entries),
        archive_faults=tree.faults,
        ambiguities=tree.ambiguities,
        dll_directories=reading.loading.dll_directories,
        loading_code=reading.loading.loading_code,
        preloaded=reading.loading.preloaded,
    )
    if not (package.objects or package.malformed or package.unread):
        raise PackageError(f"{tree.label}: no object file in this folder")
    return package


def find_layout(entries: Iterable[TreeEntry]) -> Layout:
    """Where its parts are: as in an environment, if it has a site-packages, else all in one place.

    Of two site-packages, as a mixed environment has them, that with more files counts.
    """
    found = Counter(m[0] for entry in entries if (m := _SITE_PACKAGES.match(entry.name)))
    if not found:
        return Layout(climbs=False)
    site_packages = found.most_common(1)[0][0]
    if site_packages.startswith("Lib/"):
        return Layout(
            site_packages=site_packages,
            scripts="Scripts",
            python="",
            libraries="Library/bin",
            headers="Library/include",
            climbs=False,
        )
    return Layout(site_packages=site_packages, climbs=False)
