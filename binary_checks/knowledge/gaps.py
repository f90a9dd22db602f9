"""Parts of a package that a check could not inspect: objects that were not read, and tags."""

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
    """Yield the objects that could not be read, among those whose path concerns the check.

    Raises NotApplicable with the reason ``absent`` if there are none, and the check has not
    ``found`` anything to judge either.
    """
    unread = [
        item
        for item in list_unread(package)
        if (formats is None or item.format in formats) and concerns(item.path)
    ]
    if not (unread or found):
        raise NotApplicable(absent)
    for item in unread:
        yield make_gap(item)


def list_unread(package: Package) -> tuple[MalformedObject | UnreadObject, ...]:
    """Return the objects that could not be read, malformed or too large."""
    return *package.malformed, *package.unread


def make_gap(item: MalformedObject | UnreadObject) -> NotInspected:
    """Return why an object could not be read, as a gap."""
    too_large = isinstance(item, UnreadObject) and item.too_large
    return NotInspected(path=item.path, sentence=item.reason, too_large=too_large)


def find_unloaded(linkage: Linkage, package: Package) -> Iterator[NotInspected]:
    """Yield the objects that could not be read, and are missing in the linkage.

    Also yields the platform tags that were not simulated. Raises NotApplicable if the package has
    no object that the target's loader would load.
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
    """Return why none of a package's native code could be judged, given its linkage or the error.

    Return "" if some of the code was judged, if there is no code, or if no loader was simulated.
    Files that are malformed or too large are not a gap here, because they fail.
    """
    reason = ""
    if isinstance(linkage, Unavailable):
        reason = str(linkage)
    elif isinstance(linkage, Linkage) and not linkage.closures:
        gaps = (*find_unjudged(linkage), *map(make_gap, package.unread))
        first = next((each for each in gaps if not each.too_large), NotInspected(sentence=""))
        where = f"{package.layout.shorten_label(first.path)}: " if first.path else ""
        reason = f"{where}{first.sentence}"
    return reason if package.objects or package.unread else ""


def find_unjudged(judged: Linkage | TargetSystem) -> Iterator[NotInspected]:
    """Yield the platform tags that the judged system does not represent."""
    name = judged.target if isinstance(judged, Linkage) else judged.name
    for tag in judged.unjudged:
        yield NotInspected(
            sentence=f"{tag} was not judged; {name.partition(',')[0]} was judged instead"
        )
