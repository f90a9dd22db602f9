"""The libraries that objects need, and where loaders search for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from binary_checks.declaring import difference
from binary_checks.knowledge.library_names import strip_graft
from binary_checks.knowledge.linked_libraries import is_grafted, loose_name, plain_path
from binary_checks.knowledge.python_libraries import is_python_dll
from binary_checks.knowledge.tags import is_loaded
from binary_checks.model import Build, Change, Edge, ElfFile, MachOFile, Package, Severity

_ALWAYS_THERE = re.compile(
    r"(?i)lib(?:c|m|pthread|dl|rt|util)\.so\.\d+|ld-linux.*|libc\.musl-.*|ld-musl-.*|linux-vdso.*|"
    r"(?:api|ext)-ms-.*|kernel32\.dll|ntdll\.dll|ucrtbase\.dll|/usr/lib/libSystem\.B\.dylib"
)
"""Parts of the C library and of Windows, which every process has."""
_NOT_FOUND = "which is not found"


@difference
def needed_libraries(old: Build, new: Build) -> Iterator[Change]:
    """The libraries that a build needs from the system, from Python and from other packages.

    A library that no object needed before is a change, and so is another version of a library; a
    library that the promised systems have is only noted.
    """
    before, after = _needs_of_others(old.package), _needs_of_others(new.package)
    replaced = {loose_name(name): name for name in before.keys() - after.keys()}
    missing = _find_missing(new)
    # keyed by severity and the objects that need them
    new_needs: dict[tuple[Severity, tuple[str, ...]], list[str]] = {}
    for name in sorted(after.keys() - before.keys()):
        if name in missing or _ALWAYS_THERE.fullmatch(name) or is_python_dll(name):
            continue
        former = replaced.pop(loose_name(name), "")
        of_system = not former and _is_systems(new, name)
        key = Severity.INFO if of_system else Severity.CHANGE, tuple(after[name])
        new_needs.setdefault(key, []).append(f"{name} in place of {former}" if former else name)
    for (severity, paths), names in new_needs.items():
        for path in paths:
            yield Change(
                severity=severity,
                subject=path,
                sentence=f"now needs {', '.join(names)}",
                together=f"now need {', '.join(names)}",
            )
    for name in sorted(replaced.values()):
        usual = _ALWAYS_THERE.fullmatch(name) or is_python_dll(name) or _is_systems(old, name)
        if not usual:
            yield Change(severity=Severity.INFO, sentence=f"no object needs {name} any more")


def _needs_of_others(package: Package) -> dict[str, list[str]]:
    """Return needed libraries outside of the package by name, and the objects that need them."""
    own = {
        _plain_name(name, windows=item.format == "PE")
        for item in package.objects
        for name in (item.file_name, item.name)
        if name
    }
    found: dict[str, list[str]] = {}
    for item in filter(is_loaded, package.objects):
        for need in item.needed:
            name = _plain_name(need.name, windows=item.format == "PE")
            if (
                name.rpartition("/")[2] not in own
                and name not in own
                and not (need.weak or need.delayed)
            ):
                path = plain_path(package.layout, item.path)
                found.setdefault(name, []).append(path)
    return {name: list(dict.fromkeys(paths)) for name, paths in found.items()}


def _plain_name(name: str, *, windows: bool) -> str:
    plain = strip_graft(name)
    if windows:
        return plain.lower()
    return plain.rpartition("/")[2] if plain.startswith("@") else plain


def _is_systems(build: Build, name: str) -> bool:
    """Whether the promised systems, or Python, have the library."""
    edges = build.linkage.edges if build.linkage else ()
    found = [edge for edge in edges if strip_graft(edge.needed).lower() == name.lower()]
    kinds = {(edge.resolved or "").partition(":")[0] for edge in found}
    return bool(found) and kinds == {"system"} and not any(edge.partly for edge in found)


@difference
def unresolved_libraries(old: Build, new: Build) -> Iterator[Change]:
    """Libraries that nothing provides any more: the loader refuses the object.

    For a bundled library that no object of the build needs this is only a change, as nothing loads
    it.
    """
    before, after = _find_missing(old), _find_missing(new)
    loaded = {edge.resolved for edge in new.linkage.edges} if new.linkage else set()
    idle = {each.path for each in new.package.objects if is_grafted(each)} - loaded
    own = {name for each in new.package.objects for name in (each.file_name, each.name)}
    for name in sorted(after.keys() - before.keys()):
        why = (
            "which is in the package, but no search path leads there" if name in own else _NOT_FOUND
        )
        for edge in after[name]:
            yield Change(
                severity=Severity.CHANGE if edge.path in idle else Severity.BREAK,
                subject=plain_path(new.package.layout, edge.path),
                sentence=f"needs {name}, {why}",
                together=f"need {name}, {why}",
            )


def _find_missing(build: Build) -> Mapping[str, list[Edge]]:
    found: dict[str, list[Edge]] = {}
    for edge in build.linkage.edges if build.linkage else ():
        doubt = edge.may_come_with or edge.weak or edge.delayed or edge.unknown or edge.partly
        if edge.resolved is None and not doubt:
            windows = edge.needed.lower().endswith((".dll", ".pyd"))
            found.setdefault(_plain_name(edge.needed, windows=windows), []).append(edge)
    return found


@difference
def search_paths(old: ElfFile | MachOFile, new: ElfFile | MachOFile) -> Iterator[Change]:
    """The directories that the loader searches for an object's libraries: RPATH, RUNPATH, LC_RPATH.

    Relative paths that are gone do not count: `unresolved-libraries` reports libraries that are no
    longer found.
    """
    before, after = _paths_of(old), _paths_of(new)
    if before == after:
        return
    known = {path for _, paths in before for path in paths}
    there = {path for _, paths in after for path in paths}
    absolute = sorted(path for path in there - known if path.startswith("/"))
    if there <= known and not any(path.startswith("/") for path in known - there):
        return
    severity = Severity.CHANGE if absolute else Severity.INFO
    kind = "absolute search paths" if absolute else "search paths"
    text = f"{_format_paths(after)}, previously {_format_paths(before)}"
    yield Change(
        severity=severity,
        sentence=f"has {'an absolute search path' if absolute else 'other search paths'}: {text}",
        together=f"have {'new ' if absolute else 'other '}{kind}",
        detail=text,
    )


def _format_paths(paths: list[tuple[str, tuple[str, ...]]]) -> str:
    return (
        ", ".join(f"{key} {':'.join(value) or 'that is empty'}" for key, value in paths) or "none"
    )


def _paths_of(item: ElfFile | MachOFile) -> list[tuple[str, tuple[str, ...]]]:
    if isinstance(item, MachOFile):
        found = [("LC_RPATH", item.rpaths)]
    else:
        found = [("RPATH", item.rpath), ("RUNPATH", item.runpath)]
    return [(key, value) for key, value in found if value]
