"""Says how each known library is linked into a package, with what proves it. Nothing is guessed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from binary_checks.knowledge.library_marks import (
    DEPENDENCIES,
    find_compilers,
    find_proof,
    find_version,
    library_of_file,
)
from binary_checks.model import Kind, Linkage, ObjectFile, Package
from binary_checks.model.binary_configuration import LinkedLibraries, LinkedLibrary, Linking, Whence

_LONGEST = 100  # characters of a text that is shown as evidence
_WHENCE = {"system": Whence.SYSTEM, "python": Whence.PYTHON, "wheel": Whence.REQUIRED}


class _Found(NamedTuple):
    """One library in one object."""

    name: str
    linking: Linking
    path: str
    evidence: str
    version: str = ""
    file: str = ""
    whence: Whence | None = None


def find_linked(package: Package, linkage: Linkage | None) -> LinkedLibraries:
    """Every library that objects of the package have in them, or need.

    Without a linkage it is not known where those that are needed come from. Raises Unavailable
    where the symbols are not known.
    """
    loaded = [item for item in package.objects if item.kind in (Kind.SHARED, Kind.EXECUTABLE)]
    own = {path: name for item in loaded for path, name in [(item.path, _library_of(item))] if name}
    versions = _read_versions(loaded, own)
    origins = _find_origins(linkage)
    found = [
        each
        for item in loaded
        for each in (*_find_dynamic(item, origins, versions), *_find_static(item, own))
    ]
    texts = tuple({text for item in loaded for text in item.texts})
    return LinkedLibraries(libraries=_join(package, found), compilers=find_compilers(texts))


def _library_of(item: ObjectFile) -> str:
    """Which of the known libraries the object is; an extension module is none."""
    name = item.name.rpartition("/")[2]
    return library_of_file(item.file_name) or (library_of_file(name) if name else "")


def _read_versions(loaded: list[ObjectFile], own: Mapping[str, str]) -> dict[str, str]:
    """By the name of its file, the version of a library that the package has."""
    found = {}
    for item in loaded:
        if (name := own.get(item.path)) and (version := find_version(name, item.texts)[0]):
            found[item.file_name] = version
            found.setdefault(item.name.rpartition("/")[2], version)
    return found


def _find_origins(linkage: Linkage | None) -> Mapping[tuple[str, str], Whence]:
    """Where each need of each object is satisfied."""
    found = {}
    for edge in linkage.edges if linkage is not None else ():
        kind, colon, _ = (edge.resolved or "").partition(":")
        if edge.resolved is None:
            whence = Whence.REQUIRED if edge.may_come_with else Whence.MISSING
        else:
            whence = _WHENCE.get(kind, Whence.UNKNOWN) if colon else Whence.BUNDLED
        found[edge.path, edge.needed] = whence
    return found


def _find_dynamic(
    item: ObjectFile, origins: Mapping[tuple[str, str], Whence], versions: Mapping[str, str]
) -> Iterator[_Found]:
    for need in item.needed:
        file = need.name.rpartition("/")[2]
        name = library_of_file(file)
        if name and name != _library_of(item):
            whence = origins.get((item.path, need.name), Whence.UNKNOWN)
            version = versions.get(file, "") if whence is Whence.BUNDLED else ""
            evidence = f"needs {file}"
            yield _Found(name, Linking.DYNAMIC, item.path, evidence, version, file, whence)


def _find_static(item: ObjectFile, own: Mapping[str, str]) -> Iterator[_Found]:
    """Those whose own texts or functions are in it, though it neither is them nor needs them."""
    needed = {library_of_file(need.name.rpartition("/")[2]) for need in item.needed}
    found = {
        name: evidence
        for name in DEPENDENCIES
        if name not in needed and name != own.get(item.path) and (evidence := _prove(item, name))
    }
    for name in tuple(found):
        for other in DEPENDENCIES[name].instead_of:
            found.pop(other, None)
    doubtful = _find_doubtful(item, {*needed, *found, own.get(item.path, "")})
    yield from (_Found(name, Linking.UNKNOWN, item.path, said) for name, said in doubtful)
    for name, evidence in found.items():
        version, text = find_version(name, item.texts)
        shown = text or evidence
        yield _Found(name, Linking.STATIC, item.path, shown[:_LONGEST], version)


def _find_doubtful(item: ObjectFile, known: set[str]) -> Iterator[tuple[str, str]]:
    """Those that it speaks of, and neither has nor needs for all that is seen."""
    for file in item.opened.names if item.opened else ():
        if (name := library_of_file(file)) and name not in known:
            known.add(name)
            yield name, f"names {file}, which it may open at run time"
    for name in DEPENDENCIES.keys() - known:
        version, text = find_version(name, item.texts)
        if version and not any(name in DEPENDENCIES[each].instead_of for each in known if each):
            yield name, f"names a version, as headers may: {text[:_LONGEST]}"


def _prove(item: ObjectFile, name: str) -> str:
    if text := find_proof(name, item.texts):
        return text
    exports = DEPENDENCIES[name].exports
    likely = [each for each in exports if item.exports.may_mention(each)]
    for each in sorted(item.exports.among(likely)) if likely else ():
        if all(not symbol.library and not symbol.forwarder for symbol in item.exports.find(each)):
            return f"exports {each}"
    return ""


def _join(package: Package, found: list[_Found]) -> tuple[LinkedLibrary, ...]:
    """One row for all objects that have a library in the same way."""
    groups: dict[tuple[str, ...], list[_Found]] = {}
    for each in found:
        whence = each.whence.value if each.whence else ""
        key = (each.name, each.linking.value, each.version, each.file, whence)
        groups.setdefault(key, []).append(each)
    rows = []
    for group in groups.values():
        first = min(group, key=lambda each: each.path)
        rows.append(
            LinkedLibrary(
                name=first.name,
                role=DEPENDENCIES[first.name].role,
                linking=first.linking,
                version=first.version,
                file=first.file,
                whence=first.whence,
                objects=len({each.path for each in group}),
                evidence=f"{package.layout.shorten(first.path)}: {first.evidence}",
            )
        )
    order = {name: index for index, name in enumerate(DEPENDENCIES)}
    return tuple(
        sorted(rows, key=lambda row: (order[row.name], row.linking.value, row.file, row.version))
    )
