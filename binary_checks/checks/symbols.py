"""Whether every symbol and every symbol version that objects need is there at the user's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from binary_checks.check import check
from binary_checks.checks.symbol_texts import (
    count_undefined,
    list_symbols,
    spell_lacking,
    spell_undefined,
)
from binary_checks.checks.unloaded_objects import find_unjudged, find_unloaded
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    ElfFile,
    Finding,
    Format,
    Kind,
    Linkage,
    NeededVersion,
    Note,
    NotLooked,
    Package,
    Policy,
    Problem,
    TargetSystem,
    UnresolvedSymbol,
)
from binary_checks.model.extensions import is_extension, module_of
from binary_checks.model.phrases import name_first


@check
def version_newer_than_tag(
    library: ElfFile, linkage: Linkage, target: TargetSystem
) -> Iterator[Finding]:
    """An object needs a newer libc, libstdc++ or other system library than its tag promises.

    Only what the system's libraries must bring counts; a bundled libstdc++ has its own versions.

    Why: installers trust the tag; on a system as old as it allows, the import fails with "version
    `GLIBC_2.29' not found".
    Fix: build in the image of the tag, or name the lowest tag that is true (``auditwheel repair``).
    """
    yield from _find_unpromised(target)
    if target.policy is None:
        return
    needs = _of_system(library, linkage)
    newer = [need for need in needs if target.policy.allows(need.version) is False]
    if not newer:
        return
    tag = target.name.partition(",")[0]
    true = _lowest(needs, target.policies)
    advice = (
        f"the lowest tag that is true is {true.name}_{true.architecture}"
        if true
        else "no tag allows that"
    )
    yield f"needs {_describe(library, newer)}, newer than {tag} allows; {advice}"


def _find_unpromised(target: TargetSystem) -> Iterator[NotLooked]:
    """Find the tags of which it is not known, or not asked, what they promise."""
    tag = target.name.partition(",")[0]
    if target.policy is None and tag.startswith("linux_"):
        if not target.unjudged:
            raise NotApplicable(f"{tag} promises no version of anything")
    elif target.policy is None:
        yield NotLooked(sentence=f"there are no data of what {tag} promises")
    yield from find_unjudged(target)


def _of_system(library: ElfFile, linkage: Linkage) -> list[NeededVersion]:
    """The version nodes that libraries of the system must have."""
    edges = linkage.edges_of(library.path, library.architecture)
    system = {e.needed for e in edges if e.resolved and e.resolved.startswith("system:")}
    return [n for n in library.symbol_versions if n.library in system and not n.weak]


def _lowest(needs: Iterable[NeededVersion], policies: Iterable[Policy]) -> Policy | None:
    versions = {need.version for need in needs}
    return next(
        (p for p in policies if all(p.allows(version) is not False for version in versions)), None
    )


def _describe(library: ElfFile, newer: Iterable[NeededVersion]) -> str:
    """The newest node of each prefix, with symbols that ask for it."""
    newest: dict[str, NeededVersion] = {}
    for need in sorted(newer, key=lambda need: _as_numbers(need.version)):
        newest[need.version.partition("_")[0]] = need
    return " and ".join(_with_symbols(library, newest[prefix]) for prefix in sorted(newest))


def _with_symbols(library: ElfFile, need: NeededVersion) -> str:
    names = sorted(s.name for s in library.imports if s.version == need.version)
    asked_by = f" ({list_symbols(names)})" if names else ""
    return f"{need.version} of {need.library}{asked_by}"


def _as_numbers(version: str) -> tuple[int, ...]:
    numbers = version.partition("_")[2].split(".")
    return tuple(int(part) if part.isdecimal() else 0 for part in numbers)


@check
def undefined_symbol(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """An object needs a symbol that nothing defines when it is loaded.

    On macOS and Windows nearly every symbol is asked of one library, and looked up in that alone.
    What is asked of a library of the system whose exports are not known is taken for granted; a
    note says how much that is.

    Why: Python binds all symbols of an extension module at import, which fails with "undefined
    symbol", "Symbol not found" or "The specified procedure could not be found"; other libraries
    fail at the first call.
    Fix: link the object with the library that defines the symbol (``-Wl,-z,defs`` tells at once),
    in the version that is shipped.
    """
    yield from find_unloaded(linkage, package)
    imported = {item.path for item in package.objects if is_extension(item)}
    # Where the whole version node is missing, missing-version says so, once.
    told = {(item.path, item.provider, item.version) for item in linkage.missing_versions}
    groups: dict[tuple[str, ...], list[UnresolvedSymbol]] = {}
    for item in linkage.unresolved:
        if (item.path, item.provider, item.version) not in told and not item.delayed:
            asked = "" if linkage.format is Format.ELF else item.library
            key = (item.path, item.provider, item.elsewhere, item.root, asked, item.architecture)
            groups.setdefault(key, []).append(item)
    for (path, _, elsewhere, root, asked, _), items in groups.items():
        if asked:
            yield Problem(path=path, sentence=spell_lacking(items))
            continue
        expected = bool(elsewhere) and root not in imported
        kind = NotLooked if expected else Problem
        yield kind(path=path, sentence=spell_undefined(items, expected=expected))
    for hidden in linkage.unexplored:
        told_of = count_undefined(hidden.count)
        yield NotLooked(
            path=hidden.path, sentence=f"{told_of} could not be looked up: {hidden.reason}"
        )
    if linkage.granted:
        total = sum(number for _, number in linkage.granted)
        names = name_first([name for name, _ in linkage.granted], 3)
        yield Note(
            sentence=f"{total} symbols of system libraries whose exports are not known were taken "
            f"for granted ({names})"
        )


@check
def missing_version(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """An object needs a symbol version that its library does not define.

    Why: ld.so checks every needed version at load, whether it is used or not; where the library
    has no versions at all it aborts the process.
    Fix: bundle the library that the object was linked with.
    """
    yield from find_unloaded(linkage, package)
    for item in linkage.missing_versions:
        lacks, then = (
            ("does not define it", "the loader refuses the file")
            if item.versioned
            else ("defines no versions at all", "the loader aborts the process")
        )
        yield Problem(
            path=item.path,
            sentence=f"needs {item.version} of {item.library}, but {item.provider} {lacks}: {then}",
        )


@check
def forbidden_symbol(library: ElfFile, linkage: Linkage, target: TargetSystem) -> Iterator[Finding]:
    """An object uses symbols that some systems' build of an allowed library lacks.

    Why: the policy allows libz.so.1, and not what is private to one build of it; elsewhere the
    symbol is undefined.
    Fix: bundle the library, or do without the symbol.
    """
    yield from _find_unpromised(target)
    if target.policy is None:
        return
    for edge in linkage.edges_of(library.path, library.architecture):
        forbidden = target.policy.forbidden_symbols.get(edge.needed, frozenset())
        if forbidden and edge.resolved == f"system:{edge.needed}":
            names = forbidden & library.imports.names - library.exports.names
            used = sorted(n for n in names if any(not s.weak for s in library.imports.find(n)))
            if used:
                yield (
                    f"uses {list_symbols(used)} of {edge.needed}, which not all systems have: "
                    "there it is undefined"
                )


@check(enabled=False)
def unhidden_exports(
    library: ElfFile, *, allowed: tuple[str, ...] = ("_init", "_fini")
) -> Iterator[Finding]:
    """An extension module exports more than its init function.

    Why: its symbols can take the place of another module's of the same name, and the reverse.
    Fix: compile with ``-fvisibility=hidden``, link with a version script or
    ``-Wl,--exclude-libs,ALL``.
    """
    if library.kind is not Kind.SHARED or module_of(library.path, library.exports) is None:
        return
    names = sorted(
        name
        for name in library.exports.names
        if not name.startswith(("PyInit_", "PyInitU_")) and name not in allowed
    )
    if names:
        yield f"exports {list_symbols(names)}"


@check(enabled=False)
def debug_information(library: ElfFile) -> Iterator[Finding]:
    """An object carries debug information.

    Why: it is often most of the file's size, and no user's process reads it.
    Fix: link with ``-Wl,--strip-debug``, or keep it apart (``objcopy --only-keep-debug``).
    """
    if library.debug_information:
        yield f"carries debug information (.debug_info) in its {library.size} bytes"
