"""Load every object of a package with a clean system's loader, and read its output.

With glibc's loader this is the output of ``ldd -r``, with musl's that of ``ldd``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from binary_checks.declaring import gathers
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    ElfFile,
    Kind,
    Linkage,
    LoaderAnswer,
    LoadFault,
    LoadFaultKind,
    LoadReport,
    Package,
    Place,
)

_MISSING = re.compile(r"^\t(?P<name>\S+) => not found$", re.MULTILINE)
_VERSION = re.compile(
    r"^.*?: (?P<provider>\S+): version `(?P<version>[^']+)' not found "
    r"\(required by (?P<path>[^\n]+)\)$",
    re.MULTILINE,
)
_SYMBOL = re.compile(
    r"^(?:undefined )?symbol:? (?P<name>[^\s,]+)"
    r"(?:, version (?P<version>\S+?))?(?: not defined in file (?P<provider>\S+)[^\t\n]*)?"
    r"\t\((?P<path>[^\n]+)\)$",
    re.MULTILINE,
)
_REFUSED = re.compile(
    r"^[^\n]*?: error while loading shared libraries: (?P<path>[^\n:]+): (?P<detail>[^\n]+)$",
    re.MULTILINE,
)
_LONGEST = 200  # characters of a loader's output shown instead of an answer
_ABSENT = "cannot open shared object file"
_MUSL_MISSING = re.compile(
    r"^Error loading shared library (?P<name>[^\s:]+): (?P<detail>[^\n]*?)"
    r"(?: \(needed by (?P<path>[^\n]+)\))?$",
    re.MULTILINE,
)
_MUSL_SYMBOL = re.compile(
    r"^Error relocating (?P<path>[^\n]+): (?P<name>[^\s:]+): symbol not found$", re.MULTILINE
)
_LOADED = (Kind.SHARED, Kind.EXECUTABLE)


@gathers(LoadReport)
def trace_loading(place: Place, package: Package, linkage: Linkage | Package) -> LoadReport:
    """Load every object that is loaded directly, with all libraries that it needs.

    Raises NotApplicable if packages run on this host's system, or the package has no object for the
    clean system; Unavailable if there is no clean system or the package cannot be copied to it.
    """
    image = place.system
    if image is None:
        raise NotApplicable("only in an image: --binary-place image:REFERENCE")
    objects = {
        item.path: item
        for item in package.objects_of(ElfFile)
        if item.kind in _LOADED and item.architecture == image.architecture
    }
    if not objects:
        raise NotApplicable(f"no object in the package is for Linux on {image.architecture}")
    paths = tuple(choose_roots(objects, linkage))
    answers = place.resolve(package, paths)
    answers = tuple(_require_answer(answer, objects[answer.path], image.libc) for answer in answers)
    faults = [fault for answer in answers for fault in read_answer(answer)]
    return LoadReport(
        python="",
        system=image.title,
        libc=image.libc,
        architecture=image.architecture,
        reservation=image.reservation,
        loaded=paths,
        faults=tuple(_attribute(faults, objects)),
        untried=tuple((answer.path, answer.lack) for answer in answers if answer.lack),
    )


def choose_roots(objects: Iterable[str], linkage: Linkage | Package) -> Iterator[str]:
    """Yield the objects that are loaded directly.

    Other objects are loaded together with these, in their scope.
    """
    if not isinstance(linkage, Linkage):
        yield from sorted(objects)
        return
    roots = set(linkage.roots)
    carried = {name for root, names in linkage.closures if root in roots for name in names}
    yield from sorted(path for path in objects if path in roots or path not in carried)


def _require_answer(answer: LoaderAnswer, library: ElfFile, libc: str) -> LoaderAnswer:
    """Mark an answer as missing if it names none of the libraries that the object needs.

    musl's loader is also its libc, and does not list itself.
    """
    needed = [each.name for each in library.needed]
    if libc.startswith("musl"):
        needed = [name for name in needed if not name.startswith("libc.")]
    output = f"{answer.printed}\n{answer.complaints}"
    if answer.lack or not needed or any(name in output for name in needed):
        return answer
    last = answer.complaints.strip().rpartition("\n")[2][:_LONGEST]
    return replace(
        answer, lack=f"its loader does not list the libraries that it needs{last and f': {last}'}"
    )


def read_answer(answer: LoaderAnswer) -> Iterator[LoadFault]:
    """Yield the faults that a loader reports for an object and all libraries loaded with it."""
    if answer.lack:
        return
    root, output = answer.path, answer.complaints
    for match in _MISSING.finditer(answer.printed):
        yield LoadFault(kind=LoadFaultKind.LIBRARY, path="", root=root, name=match["name"])
    for match in _MUSL_MISSING.finditer(output):
        path = match["path"] or ""
        yield LoadFault(kind=LoadFaultKind.LIBRARY, path=path, root=root, name=match["name"])
    for match in _VERSION.finditer(output):
        yield LoadFault(
            kind=LoadFaultKind.VERSION,
            path=match["path"],
            root=root,
            version=match["version"],
            provider=match["provider"].rpartition("/")[2],
        )
    for match in (*_SYMBOL.finditer(output), *_MUSL_SYMBOL.finditer(output)):
        found = match.groupdict()
        yield LoadFault(
            kind=LoadFaultKind.SYMBOL,
            path=match["path"],
            root=root,
            name=match["name"],
            version=found.get("version") or "",
            provider=found.get("provider") or "",
        )
    for match in _REFUSED.finditer(output):
        if _ABSENT not in match["detail"]:
            detail = " ".join(match["detail"].split())
            yield LoadFault(
                kind=LoadFaultKind.REFUSED, path=match["path"], root=root, detail=detail
            )


def _attribute(faults: Iterable[LoadFault], objects: dict[str, ElfFile]) -> Iterator[LoadFault]:
    """Add the object that needs a missing library, and yield each fault of an object once."""
    seen = set()
    for fault in faults:
        named = fault
        if not fault.path:
            needed = ((path, {each.name for each in item.needed}) for path, item in objects.items())
            needy = [path for path, names in needed if fault.name in names]
            own = fault.root in needy or not needy
            named = replace(fault, path=fault.root if own else min(needy))
        key = (named.kind, named.path, named.name, named.version, named.detail)
        if key not in seen:
            seen.add(key)
            yield named
