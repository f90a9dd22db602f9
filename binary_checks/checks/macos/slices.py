"""Whether universal binaries have code for each architecture, and the same for all of them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import takewhile

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.macos_tags import lowest_claims, plain_architecture, spell_processor
from binary_checks.model import Finding, Kind, MachOFile, Note, Package
from binary_checks.model.python_modules import init_function, is_extension, parse_extension_name
from binary_checks.wording.phrases import name_first

_LOADED = (Kind.SHARED, Kind.EXECUTABLE)
_CURRENT = frozenset({"x86_64", "aarch64"})
"""The architectures of today's Pythons; those of older ones are not asked for."""
_WORDS = {"x86_64": r"x86[_-]64|amd64|x64|intel", "aarch64": "arm64|aarch64"}
_SYSTEM = ("/usr/lib/", "/System/")


@check
def missing_slice(library: MachOFile, package: Package) -> Iterator[Finding]:
    """A file in a wheel for two architectures has code for only one of them.

    Files with their architecture in their path are exempt, and so are libraries that only code for
    the same architectures needs, such as libgfortran in numpy's universal2 wheels.

    Why: where the code is missing the file does not load: "incompatible architecture"; a program
    for Intel runs on Apple silicon only where Rosetta is installed.
    Fix: build for both (``ARCHFLAGS="-arch arm64 -arch x86_64"``) or merge two builds with
    ``delocate-merge`` or ``lipo``; Homebrew's libraries are for one architecture.
    Level: on the other architecture the file does not load.
    """
    claimed = _CURRENT & set(lowest_claims(package.claims.systems))
    if claimed != _CURRENT:
        raise NotApplicable("no platform tags that promise both architectures of macOS")
    present = {plain_architecture(item.architecture) for item in _find_slices(library, package)}
    if library.kind not in _LOADED or any(_is_named(library.path, name) for name in present):
        return
    for missing in sorted(_CURRENT - present):
        if _is_wanted(library, missing, package):
            names = ", ".join(map(spell_processor, sorted(present)))
            yield f"has code for {names} only, but the tags promise {spell_processor(missing)}"


def _is_named(path: str, architecture: str) -> bool:
    words = _WORDS.get(architecture, architecture)
    return bool(re.search(rf"(?<![^\W_])(?:{words})(?![^\W_])", path.lower()))


def _find_slices(library: MachOFile, package: Package) -> tuple[MachOFile, ...]:
    """Every slice of the library's file, by a search: objects are in the order of their paths."""
    start = bisect_left(package.objects, library.path, key=lambda item: item.path)
    following = (package.objects[place] for place in range(start, len(package.objects)))
    slices = takewhile(lambda item: item.path == library.path, following)
    return tuple(item for item in slices if isinstance(item, MachOFile))


def _is_wanted(library: MachOFile, missing: str, package: Package) -> bool:
    """Whether code for that architecture asks for the file, or nothing says that it does not."""
    name = parse_extension_name(library.path)
    if library.kind is Kind.EXECUTABLE or is_extension(library) or (name and name.tagged):
        return True
    users = package.derive(_find_users).get(library.file_name)
    return not users or missing in users


def _find_users(package: Package) -> dict[str, set[str]]:
    """By the names of files that are needed, the architectures of the code that needs them."""
    found: dict[str, set[str]] = {}
    for item in package.objects_of(MachOFile):
        for need in item.needed:
            users = found.setdefault(need.name.rpartition("/")[2], set())
            users.add(plain_architecture(item.architecture))
    return found


@check
def slices_differ(library: MachOFile, package: Package) -> Iterator[Finding]:
    """The two slices of a universal binary are not the same library.

    The check compares the module's init function, symbols that one slice defines and the other
    looks for elsewhere, bundled libraries that only one slice needs, and the install name where
    something needs it. Exports differ in healthy files (SIMD code, C++ type information). Where
    each slice needs libraries of its own, where names differ only in their folders, and where
    search paths differ, that is noted.

    Why: code that works on Intel fails on Apple silicon, or the other way round. The linker skips
    libraries of the other architecture with only a warning.
    Fix: build each slice with libraries of its own architecture, and merge only matching builds.
    Level: on one of the two architectures the import or a call fails.
    """
    if library.architecture != "aarch64" or library.kind not in _LOADED:
        return
    slices = {item.architecture: item for item in _find_slices(library, package)}
    intel = slices.get("x86_64")
    if intel is None:
        return
    for one, other in ((library, intel), (intel, library)):
        yield from _compare_symbols(one, other)
    yield from _compare_libraries(library, intel)
    yield from _compare_names(library, intel, package)


def _compare_names(one: MachOFile, other: MachOFile, package: Package) -> Iterator[Finding]:
    needed = package.derive(_find_needed)
    if one.name != other.name and not needed.isdisjoint((one.name, other.name)):
        files = [item.name.rpartition("/")[2] for item in (one, other)]
        names = [item.name or "nothing" for item in (one, other)]
        sentence = "its arm64 code has the install name {}, its x86_64 code {}".format(*names)
        yield Note(sentence=sentence) if files[0] == files[1] else sentence
    seeks = any(need.name.startswith("@rpath/") for need in (*one.needed, *other.needed))
    if seeks and _list_own_rpaths(one) != _list_own_rpaths(other):
        yield Note(sentence="its arm64 and x86_64 code have different search paths (LC_RPATH)")


def _find_needed(package: Package) -> frozenset[str]:
    return frozenset(need.name for item in package.objects_of(MachOFile) for need in item.needed)


def _list_own_rpaths(item: MachOFile) -> list[str]:
    """Those that may lead anywhere at the user's; absolute ones are a fault of their own."""
    plain = (rpath.rstrip("/") for rpath in item.rpaths if not rpath.startswith("/"))
    return list(dict.fromkeys(plain))


def _compare_symbols(one: MachOFile, other: MachOFile) -> Iterator[str]:
    mine, theirs = spell_processor(one.architecture), spell_processor(other.architecture)
    name = parse_extension_name(one.path)
    functions = one.exports.among({init_function(name.stem)} if name else ())
    if lacking := sorted(functions - other.exports.among(functions)):
        yield f"its {mine} code defines {name_first(lacking)}, its {theirs} code does not"
    anywhere = one.imports.by_version.get(("", ""), frozenset())
    theirs_alone = other.exports.among(anywhere)
    if sought := sorted(theirs_alone - one.exports.among(theirs_alone)):
        yield (
            f"its {mine} code looks elsewhere for {name_first(sought)}, which its {theirs} code"
            " defines itself"
        )


def _compare_libraries(one: MachOFile, other: MachOFile) -> Iterator[Finding]:
    """Compare what is needed beside the system's libraries, whose lists differ for good reasons."""
    mine, theirs = _list_own_needs(one), _list_own_needs(other)
    for item, alone in ((one, mine - theirs), (other, theirs - mine)):
        if not alone:
            continue
        code = spell_processor(item.architecture)
        sentence = f"only its {code} code needs {name_first(sorted(alone))}"
        yield Note(sentence=sentence) if mine and theirs else sentence


def _list_own_needs(item: MachOFile) -> frozenset[str]:
    return frozenset(need.name for need in item.needed if not need.name.startswith(_SYSTEM))
