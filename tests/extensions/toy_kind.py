"""A toy kind of package from outside, as a project's profile names it: a ``.toy``.

The member TOY says "name version"; all other members are files to install. The
file is a zip archive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from binary_checks import check
from binary_checks.errors import PackageError
from binary_checks.model import (
    ContentStore,
    Layout,
    ObjectReader,
    Package,
    Preview,
    Progress,
    Tree,
    VisitRequest,
)
from binary_checks.packages.folder import assemble
from binary_checks.trees.members import find_formats


@dataclass(frozen=True, kw_only=True, slots=True)
class Toy(Package):
    """An archive for children."""

    noun = "a toy"
    age: int = 0  # of the youngest child that may have it, years


def recognises(label: str, look: Callable[[], Tree]) -> bool:
    return label.endswith(".toy") and look().find("TOY") is not None


def preview(tree: Tree, reader: ObjectReader) -> Preview:
    return Preview(kind=Toy, formats=find_formats(tree, tree.entries(), reader))


def read(
    tree: Tree,
    reader: ObjectReader,
    progress: Progress | None = None,
    store: ContentStore | None = None,
) -> Toy:
    visited = tree.visit(reader, VisitRequest(texts={"TOY": 1000}, store=store), progress)
    about = next(each.content for each in visited if each.member.path == "TOY")
    words = (about or b"").decode().split()
    if len(words) < 2:
        raise PackageError(f"{tree.label}: TOY does not say name and version")
    return assemble(
        Toy,
        visited,
        Layout(climbs=False),
        path=tree.path,
        name=words[0],
        version=words[1],
        size=tree.size,
        age=int(words[2]) if len(words) > 2 else 0,
    )


@check
def toy_without_age(package: Toy) -> Iterator[str]:
    """A toy does not say for whom it is.

    Why: small children swallow small parts.
    Fix: write the age into TOY.
    """
    if not package.age:
        yield "TOY states no age"
