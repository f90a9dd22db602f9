"""A toy kind of package: a box whose member ABOUT says "name version"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from binary_checks.errors import PackageError
from binary_checks.model import (
    ContentStore,
    ObjectFile,
    ObjectReader,
    Package,
    Preview,
    Progress,
    Tree,
    VisitRequest,
)
from binary_checks.trees.members import find_formats


@dataclass(frozen=True, kw_only=True, slots=True)
class Boxed(Package):
    """What lies in a box."""

    texts: tuple[str, ...] = ()  # the names of the members


def recognises(label: str, look: Callable[[], Tree]) -> bool:
    return label.endswith(".box") and look().find("ABOUT") is not None


def preview(tree: Tree, reader: ObjectReader) -> Preview:
    return Preview(kind=Boxed, formats=find_formats(tree, tree.entries(), reader))


def read(
    tree: Tree,
    reader: ObjectReader,
    progress: Progress | None = None,
    store: ContentStore | None = None,
) -> Boxed:
    visited = tree.visit(reader, VisitRequest(texts={"ABOUT": 1000}, store=store), progress)
    about = next(each.content for each in visited if each.member.path == "ABOUT")
    if about is None:
        raise PackageError(f"{tree.label}: ABOUT cannot be read")
    name, version = about.decode().split()
    return Boxed(
        path=tree.path,
        name=name,
        version=version,
        size=tree.size,
        members=tuple(each.member for each in visited),
        objects=tuple(
            item for each in visited for item in each.objects if isinstance(item, ObjectFile)
        ),
        texts=tuple(each.member.path for each in visited),
    )
