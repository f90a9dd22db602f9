"""A single object file that is judged on its own: a developer's ``.so``, ``.pyd`` or ``.dylib``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from binary_checks.errors import PackageError
from binary_checks.model import (
    ContentStore,
    Layout,
    ObjectReader,
    Preview,
    Progress,
    SingleObject,
    Tree,
    VisitRequest,
    format_of_name,
)
from binary_checks.packages.folder import assemble
from binary_checks.trees.loose_file import LooseFile
from binary_checks.trees.members import find_formats

_PROGRAMS = ("", ".exe", ".node")


def recognises(label: str, look: Callable[[], Tree]) -> bool:
    """Return whether the file is named like a library, or is an object named like a program."""
    if format_of_name(label) is not None:
        return True
    suffix = PurePath(label).suffix
    # python3.12 and clang-14.0 are programs
    called = suffix in _PROGRAMS or suffix[1:].isdigit()
    return called and isinstance(look(), LooseFile)


def preview(tree: Tree, reader: ObjectReader) -> Preview:
    """Look at the first bytes of the file."""
    return Preview(kind=SingleObject, formats=find_formats(tree, tree.entries(), reader))


def read(
    tree: Tree,
    reader: ObjectReader,
    progress: Progress | None = None,
    store: ContentStore | None = None,
) -> SingleObject:
    """Read the file. Raises PackageError if it cannot be read or is not an object file."""
    visited = tree.visit(reader, VisitRequest(store=store), progress)
    package = assemble(
        SingleObject,
        visited,
        Layout(climbs=False),
        path=tree.path,
        name=tree.label.partition(".")[0],
        size=tree.size,
    )
    if not (package.objects or package.malformed or package.unread):
        raise PackageError(f"{tree.label}: not an object file of a known format")
    return package
