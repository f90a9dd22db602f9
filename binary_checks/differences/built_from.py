"""The components of a build: bundled and linked libraries, and the C++ ABI."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import difference
from binary_checks.knowledge.inventory import find_strings
from binary_checks.knowledge.library_names import strip_graft
from binary_checks.knowledge.linked_libraries import is_grafted, library_of_file, loose_name
from binary_checks.model import (
    Build,
    Change,
    ElfFile,
    Kind,
    LinkedLibraries,
    LinkedLibrary,
    Linking,
    Package,
    Severity,
    StaticArchive,
)


@difference
def bundled_libraries(old: Build, new: Build) -> Iterator[Change]:
    """The libraries of other projects that a build contains, by their file names.

    Libraries whose own texts state their version are compared by `linked-versions`.
    """
    before, after = _find_grafted(old.package), _find_grafted(new.package)
    versioned = _versions_of(old).keys() & _versions_of(new).keys()
    replaced = {loose_name(name): name for name in sorted(before - after)}
    for name in sorted(after - before):
        former = replaced.pop(loose_name(name), "")
        if former and library_of_file(name) in versioned:
            continue
        yield Change(
            severity=Severity.CHANGE,
            subject=name,
            sentence=f"is bundled in place of {former}" if former else "is bundled now",
            together="are bundled in other versions" if former else "are bundled now",
            detail=f"in place of {former}" if former else "",
            noun="libraries",
        )
    for name in sorted(replaced.values()):
        yield Change(
            severity=Severity.CHANGE,
            subject=name,
            sentence="is no longer bundled",
            together="are no longer bundled",
            noun="libraries",
        )


def _find_grafted(package: Package) -> set[str]:
    return {
        strip_graft(item.file_name)
        for item in package.objects
        if item.kind is Kind.SHARED and is_grafted(item)
    }


def _versions_of(build: Build) -> dict[str, str]:
    known = _by_name(build.linked) if build.linked else {}
    return {name: each.version for name, each in known.items() if each.version}


@difference
def linked_versions(old: LinkedLibraries, new: LinkedLibraries) -> Iterator[Change]:
    """The versions of known libraries that a build links, and whether it links them statically."""
    before, after = _by_name(old), _by_name(new)
    for name in sorted(before.keys() & after.keys()):
        was, now = before[name], after[name]
        if was.linking is not now.linking:
            yield Change(
                severity=Severity.CHANGE,
                subject=name,
                sentence=f"is linked {_how(now)}, previously {_how(was)}",
            )
        elif was.version != now.version and was.version and now.version:
            yield Change(
                severity=Severity.CHANGE,
                subject=name,
                sentence=f"is linked in version {now.version}, previously {was.version}",
                together="are linked in other versions",
                detail=f"{was.version} -> {now.version}",
                noun="libraries",
            )
    for name in sorted(after.keys() - before.keys()):
        if after[name].linking is Linking.STATIC:
            yield Change(
                severity=Severity.CHANGE,
                subject=f"{name} {after[name].version}".strip(),
                sentence="is linked statically now",
                together="are linked statically now",
                noun="libraries",
            )
    for name in sorted(before.keys() - after.keys()):
        if before[name].linking is Linking.STATIC:
            yield Change(
                severity=Severity.INFO,
                subject=name,
                sentence="is no longer found linked statically",
                together="are no longer found linked statically",
                noun="libraries",
            )


def _by_name(found: LinkedLibraries) -> dict[str, LinkedLibrary]:
    """Return the linked libraries by name; leave out libraries that are linked in two ways."""
    grouped: dict[str, list[LinkedLibrary]] = {}
    for each in found.libraries:
        if each.linking is not Linking.UNKNOWN:
            grouped.setdefault(each.name, []).append(each)
    return {name: each[0] for name, each in grouped.items() if len(each) == 1}


def _how(library: LinkedLibrary) -> str:
    return "statically" if library.linking is Linking.STATIC else f"as {library.file}"


@difference
def cxx_abi(old: ElfFile | StaticArchive, new: ElfFile | StaticArchive) -> Iterator[Change]:
    """The std::string type that an object's functions take: code for the other type does not link.

    For an extension module this is only noted, as nobody links with one.
    """
    was, now = _find_abi(old), _find_abi(new)
    if was and now and was != now:
        strings = f"libstdc++'s {now} std::string, previously the {was} one"
        severity = Severity.INFO if _has_init_function(old) else Severity.BREAK
        yield Change(severity=severity, sentence=f"uses {strings}", together=f"use {strings}")


def _has_init_function(item: ElfFile | StaticArchive) -> bool:
    """Return whether the object exports a PyInit_ function, so that Python imports it.

    The file name of a module is not enough: a changed std::string breaks users of any library.
    """
    return any(name.startswith("PyInit_") for name in item.exports.names)


def _find_abi(item: ElfFile | StaticArchive) -> str:
    """Return which of the two std::string types an object uses; "" for neither or both."""
    if isinstance(item, StaticArchive):
        new, old = bool(item.strings.new), bool(item.strings.old)
    else:
        new, old = map(bool, find_strings(item))
    return "" if new is old else "new (cxx11)" if new else "old (pre-cxx11)"
