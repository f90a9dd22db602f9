"""Says in a few lines what is in a package, what it needs, and where it runs at least."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from binary_checks.errors import Unavailable
from binary_checks.knowledge.inventory import (
    NeededLibrary,
    Origin,
    each_python,
    list_bundled,
    list_needed,
    newest_nodes,
    newest_stable_symbol,
    read_cpp_interface,
)
from binary_checks.knowledge.tags import LowestTag, find_lowest_tags
from binary_checks.model import Distribution, Linkage, Package
from binary_checks.model.binary_configuration import BinaryConfiguration, LinkedLibraries
from binary_checks.model.device import DeviceDetails
from binary_checks.model.python_modules import is_extension
from binary_checks.reports.summary.device_insides import write_insides
from binary_checks.reports.summary.gpu_tables import list_architectures, write_gpu_code
from binary_checks.wording.sentences import describe_configuration, describe_linked

_WIDTH = 14  # of the words before a line's text
_FEW = 3
_MOST = 12  # libraries of one kind that are listed
_MUSL_HINT = " or later: musl's symbols have no versions that would say more"
_API_SET = re.compile(r"(?P<family>(?:api|ext)-ms-[a-z]+-[a-z]+)-.*", re.IGNORECASE)


def write_summary(
    package: Package,
    linkage: Linkage | None = None,
    configuration: BinaryConfiguration | None = None,
    linked: LinkedLibraries | None = None,
    details: DeviceDetails | None = None,
) -> Iterator[str]:
    """The account in lines, without their ends; without a linkage, without what is needed."""
    kinds = Counter(f"{item.format} {item.kind.value}" for item in package.objects)
    title = f"{package.name} {package.version}".rstrip()
    yield f"{package.file_name}: {title}, {package.size:,} bytes"
    yield from (f"  {count:>6} {kind}" for kind, count in sorted(kinds.items()))
    yield from _under("configuration", _say_configuration(configuration))
    yield from _under("claims", _say_claims(package))
    yield from _under("Pythons", _say_pythons(package))
    if package.objects:
        yield from _under("lowest tag", _say_tags(package, linkage))
        yield from _write_needs(package, linkage)
        yield from _under("bundled", _say_bundled(package))
        yield from _under("C++", _say_cpp(package))
        for heading, text in describe_linked(linked) if linked is not None else ():
            yield from _under(heading, (text,))
        yield from _under("GPU code", list_architectures(package))
    for malformed in package.malformed:
        yield f"malformed: {malformed.path}: {malformed.reason}"
    for unread in package.unread:
        yield f"not read: {unread.path}: {unread.reason}"
    yield from write_gpu_code(package)
    if details is not None:
        yield from write_insides(package, details)


def _under(heading: str, texts: Iterable[str]) -> Iterator[str]:
    """A line for each text, the heading before the first."""
    for text in texts:
        yield f"  {heading:<{_WIDTH}}{text}"
        heading = ""


def _say_configuration(configuration: BinaryConfiguration | None) -> Iterator[str]:
    if configuration is not None:
        yield describe_configuration(configuration)


def _say_claims(package: Package) -> Iterator[str]:
    if systems := ", ".join(claim.name for claim in package.claims.systems):
        yield systems


def _say_pythons(package: Package) -> Iterator[str]:
    if pythons := list(each_python(package)):
        yield ", ".join(pythons)
    if isinstance(package, Distribution) and (requires := package.header("Requires-Python")):
        yield f"Requires-Python: {requires}"
    if any(claim.abi.startswith("abi3") for claim in package.claims.pythons):
        modules = [item for item in package.objects if is_extension(item)]
        try:
            found = newest_stable_symbol(modules)
        except Unavailable as error:
            yield f"lowest by the stable ABI: not known: {error}"
            return
        if found is not None:
            (major, minor), symbol = found
            yield f"lowest by the stable ABI: {major}.{minor} ({symbol})"


def _say_tags(package: Package, linkage: Linkage | None) -> Iterator[str]:
    try:
        lowest = find_lowest_tags(package, linkage)
    except Unavailable as error:
        yield f"not known: {error}"
        return
    yield from map(_say_tag, lowest)


def _say_tag(lowest: LowestTag) -> str:
    why = _say_reasons(lowest)
    if lowest.tag:
        hint = _MUSL_HINT if lowest.family == "musllinux" and not why else ""
        return f"{lowest.tag}{f': {why}' if why else hint}"
    otherwise = f"; but for that {lowest.otherwise_tag}" if lowest.otherwise_tag else ""
    return f"no {lowest.family} tag for {lowest.architecture}: {why}{otherwise}"


def _say_reasons(lowest: LowestTag) -> str:
    """What is needed, by the objects that need it."""
    needs: dict[str, list[str]] = {}
    for reason in lowest.reasons:
        needs.setdefault(reason.need, []).append(reason.path.rpartition("/")[2])
    said = [f"{need} in {paths[0]}{_more(paths[1:])}" for need, paths in needs.items()]
    return f"{', '.join(said[:_FEW])}{_more(said[_FEW:])}"


def _more(left: list[str]) -> str:
    return f" and {len(left):,} more" if left else ""


def _write_needs(package: Package, linkage: Linkage | None) -> Iterator[str]:
    needed = list_needed(linkage) if linkage is not None else ()
    by_origin: dict[Origin, list[str]] = {}
    for library in needed:
        by_origin.setdefault(library.origin, []).append(_say_needed(package, library))
    for origin, heading in _HEADINGS.items():
        few = origin in (Origin.SYSTEM, Origin.PYTHON)
        texts = by_origin.get(origin, [])
        left = [f"and {len(texts) - _MOST:,} more"] if len(texts) > _MOST else []
        lines = [", ".join(_fold(texts))] if few and texts else [*texts[:_MOST], *left]
        yield from _under(heading, lines)


def _fold(names: Iterable[str]) -> Iterator[str]:
    """API sets of Windows by their family: the C runtime alone has fifteen."""
    families = Counter[str]()
    for name in names:
        if match := _API_SET.fullmatch(name):
            families[match["family"].lower()] += 1
        else:
            yield name
    yield from (f"{family}-* ({count})" for family, count in sorted(families.items()))


_HEADINGS = {
    Origin.SYSTEM: "system",
    Origin.PYTHON: "of Python",
    Origin.REQUIRED: "of others",
    Origin.MISSING: "missing",
}


def _say_needed(package: Package, library: NeededLibrary) -> str:
    if library.origin in (Origin.SYSTEM, Origin.PYTHON):
        about = (*newest_nodes(package, library.name), library.partly)
        notes = ", ".join(filter(None, about))
        return f"{library.name} ({notes})" if notes else library.name
    paths = [package.layout.shorten(path) for path in library.needed_by]
    origin = ""
    if library.distributions:
        perhaps = "" if library.found else "perhaps "
        origin = f" {perhaps}from {' or '.join(library.distributions)}"
    return f"{library.name}{origin}, needed by {paths[0]}{_more(paths[1:])}"


def _say_bundled(package: Package) -> Iterator[str]:
    bundled = list_bundled(package)
    for path, size in bundled[:_MOST]:
        yield f"{size:>12,}  {package.layout.shorten(path)}"
    if len(bundled) > 1:
        yield f"{sum(size for _, size in bundled):>12,}  all {len(bundled)}"


def _say_cpp(package: Package) -> Iterator[str]:
    try:
        found = read_cpp_interface(package)
    except Unavailable as error:
        yield f"not known: {error}"
        return
    if found is None:
        return
    yield ", ".join(
        filter(
            None,
            (
                *found.libraries,
                *found.versions,
                f"new std::string in {found.new_strings}" if found.new_strings else "",
                f"old std::string in {found.old_strings}" if found.old_strings else "",
                "Visual C++ {}.{}".format(*found.toolset) if found.toolset else "",
            ),
        )
    )
