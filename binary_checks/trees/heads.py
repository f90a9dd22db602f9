"""A first look at a tree: the formats in it, by the first bytes of its members alone."""

from __future__ import annotations

from collections.abc import Iterable

from binary_checks.model.objects import Format
from binary_checks.model.protocols import ObjectReader, Tree, TreeEntry
from binary_checks.trees.members import SOURCE_CODE


def find_formats(
    tree: Tree, entries: Iterable[TreeEntry], reader: ObjectReader
) -> frozenset[Format]:
    """Say which formats of object files occur among those members."""
    candidates = (each for each in entries if each.size and not each.name.endswith(SOURCE_CODE))
    found = (reader.recognise(head) for head in tree.heads(candidates) if head)
    return frozenset(each for each in found if each is not None)
