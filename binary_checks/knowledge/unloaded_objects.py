"""Says at which objects of a package a check could not look, or that there is none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from binary_checks.errors import BinaryChecksError, NotApplicable, Unavailable
from binary_checks.model import (
    Format,
    Linkage,
    MalformedObject,
    NotInspected,
    Package,
    TargetSystem,
    UnreadObject,
)


def find_unread(
    package: Package,
    *,
    found: bool,
    absent: str,
    formats: Collection[Format] | None = None,
    concerns: Callable[[str], object] = bool,
) -> Iterator[NotInspected]:
    """Find the objects that nobody could read, among those whose path concerns the check.

    Raises NotApplicable, for the reason that ``absent`` gives, where there is none and the check
    has not ``found`` what it speaks of either.
    """
    every: tuple[MalformedObject | UnreadObject, ...] = (*package.malformed, *package.unread)
    unread = [
        item
        for item in every
        if (formats is None or item.format in formats) and concerns(item.path)
    ]
    if not (unread or found):
        raise NotApplicable(absent)
    for item in unread:
        yield could_not_look(item)


def could_not_look(item: MalformedObject | UnreadObject) -> NotInspected:
    """Say of one object why nobody could read it."""
    too_large = isinstance(item, UnreadObject) and item.too_large
    return NotInspected(path=item.path, sentence=item.reason, too_large=too_large)


def find_unloaded(linkage: Linkage, package: Package) -> Iterator[NotInspected]:
    """Find the objects that nobody could read, so that the linkage says nothing of them.

    And the platform tags for which nothing was loaded. Raises NotApplicable where the package has
    nothing that the target's loader would load.
    """
    yield from find_unjudged(linkage)
    platform = linkage.target.partition(",")[0]
    yield from find_unread(
        package,
        found=bool(linkage.closures or linkage.unjudged),
        absent=f"no {linkage.format} object that is loaded on {platform}",
        formats=(linkage.format,),
    )


def explain_unjudged(package: Package, linkage: Linkage | BinaryChecksError | None) -> str:
    """Say why none of a package's native code could be judged, given what a loader makes of it.

    Return "" where some of it was judged, where there is none, and where nobody asked for a loader.
    Files that are malformed or too large are no gap here: that they fail is the verdict.
    """
    reason = ""
    if isinstance(linkage, Unavailable):
        reason = str(linkage)
    elif isinstance(linkage, Linkage) and not linkage.closures:
        gaps = (*find_unjudged(linkage), *map(could_not_look, package.unread))
        first = next((each for each in gaps if not each.too_large), NotInspected(sentence=""))
        where = f"{package.layout.shorten_label(first.path)}: " if first.path else ""
        reason = f"{where}{first.sentence}"
    return reason if package.objects or package.unread else ""


def find_unjudged(judged: Linkage | TargetSystem) -> Iterator[NotInspected]:
    """Find the platform tags that another system stands for than the one judged."""
    name = judged.target if isinstance(judged, Linkage) else judged.name
    for tag in judged.unjudged:
        yield NotInspected(sentence=f"{tag} was not judged: {name.partition(',')[0]} was")
