"""A folder with the contents of a wheel, as ``wheel unpack`` writes it."""

from __future__ import annotations

from collections.abc import Callable

from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name

from binary_checks.errors import PackageError
from binary_checks.model import ContentStore, ObjectReader, Preview, Progress, Tree, UnpackedWheel
from binary_checks.packages import distributions
from binary_checks.packages.distributions import DIST_INFO, Headers
from binary_checks.packages.wheel import Title, find_dist_info, read_contents
from binary_checks.trees.members import find_formats


def recognises(label: str, look: Callable[[], Tree]) -> bool:
    """Return whether the path is a folder with exactly one ``*.dist-info``, which contains WHEEL.

    A site-packages is not an unpacked wheel: it has a ``*.dist-info`` for each package.
    """
    if not label.endswith("/"):
        return False
    tree = look()
    names = {entry.name for entry in tree.entries()}
    roots = {name.partition("/")[0] for name in names if "/" in name}
    found = [root for root in roots if root.endswith(DIST_INFO)]
    return len(found) == 1 and f"{found[0]}/WHEEL" in names


def preview(tree: Tree, reader: ObjectReader) -> Preview:
    """Look at the first bytes of the folder's files."""
    return Preview(kind=UnpackedWheel, formats=find_formats(tree, tree.entries(), reader))


def read(
    tree: Tree,
    reader: ObjectReader,
    progress: Progress | None = None,
    store: ContentStore | None = None,
) -> UnpackedWheel:
    """Read every file in the folder. Raises PackageError if it is not an unpacked wheel."""
    dist_info = find_dist_info(tree)
    name, _, version = dist_info.removesuffix(DIST_INFO).partition("-")
    tags = read_tags(_read_wheel_headers(tree, dist_info))
    title = Title(str(canonicalize_name(name)), version, tags, dist_info)
    return read_contents(UnpackedWheel, tree, reader, title, progress=progress, store=store)


def _read_wheel_headers(tree: Tree, dist_info: str) -> Headers:
    """Read WHEEL before everything else: its tags decide where files are installed."""
    entry = tree.find(f"{dist_info}/WHEEL")
    if entry is None or entry.faults or entry.size > distributions.LONGEST["WHEEL"]:
        raise PackageError(f"{tree.label}: {dist_info}/WHEEL cannot be read")
    return distributions.read_headers(b"".join(tree.pieces(entry)))[0]


def read_tags(wheel: Headers) -> tuple[Tag, ...]:
    """Return the valid tags that WHEEL states; there may be none."""
    tags: set[Tag] = set()
    for key, value in wheel:
        if key.lower() == "tag" and value.count("-") == 2:
            tags |= parse_tag(value)
    return tuple(sorted(tags, key=str))
