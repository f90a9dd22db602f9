"""Requirements of macOS for objects, and the slices of universal files."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import takewhile

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.loading import downgrade
from binary_checks.knowledge.tags import (
    FIRST_BY_YEARS,
    format_architecture,
    lowest_claims,
    parse_mac_tag,
    plain_architecture,
    read_version,
)
from binary_checks.model import (
    ANY_SYSTEM,
    Edge,
    Finding,
    Kind,
    Level,
    Linkage,
    MachOFile,
    Note,
    NotInspected,
    Package,
    Problem,
    Wheel,
    is_extension,
    parse_extension_name,
    shorten,
)
from binary_checks.wording.problem_lines import of_library, of_newer_build
from binary_checks.wording.sentences import SIGN

# Requirements of macOS for code: versions, platforms, names, paths and signatures.

_LOADED = (Kind.SHARED, Kind.EXECUTABLE)
_SYSTEM = ("/usr/lib/", "/System/")
_PLACES = {
    "/opt/homebrew/": "which exists only where Homebrew installed it",
    "/usr/local/opt/": "which exists only where Homebrew installed it",
    "/usr/local/Cellar/": "which exists only where Homebrew installed it",
    "/opt/local/": "which exists only where MacPorts installed it",
    "/Library/Frameworks/Python.framework/": "which only python.org's installer puts there",
    "/Library/Frameworks/": "which exists only where that framework is installed",
    "/Applications/": "which exists only where that application is installed",
    "/DLC/": "a name that delocate makes up, not a file",
}
_ELSEWHERE = "which is not part of macOS and exists where the file was built"
_TRAPS = frozenset({"/usr/lib/libssl.dylib", "/usr/lib/libcrypto.dylib"})
"""Files of macOS 10.15 and later whose initialiser aborts: asn1crypto's issue 158 has the message,
civetweb's 1147 the stack (``__report_load``).
"""
_CHAINED_FIXUPS = (10, 15)
"""The first macOS whose dyld supports LC_DYLD_CHAINED_FIXUPS: orjson 3.6.9 did not load on
10.14.
"""
_STRICT_SDK = (15, 0)
"""The SDK from which on dyld refuses files that list a search path twice."""


@check
def minimum_os_above_tag(
    library: MachOFile, package: Package, *, exact: bool = False
) -> Iterator[Finding]:
    """An object is built for a newer macOS than the wheel's platform tags promise.

    Each slice is compared with the lowest tag for its architecture; for arm64 no tag promises less
    than macOS 11. Since macOS 11, tags only use major versions, and delocate rounds 12.3 down to
    ``macosx_12_0``: that is a note, unless ``exact`` is set.

    Why: the wheel installs on the older macOS. There dyld loads the object all the same, and fails
    with "Symbol not found" at the first function that is newer: at import, or at any later call.
    Fix: build with ``MACOSX_DEPLOYMENT_TARGET`` as low as the tag, bundled libraries included
    (Homebrew builds its libraries for the machine they are installed on), or raise the tag.
    Level: where dyld refuses the file (chained fixups before macOS 10.15), users cannot load it.
    Otherwise it is a warning: dyld loads the file on older systems too, and fails only at a symbol
    that is missing there, which symbol-newer-than-tag reports.
    """
    _require_macos(package)
    if library.kind not in _LOADED or not _is_for_macos(library):
        return
    systems = package.claims.systems
    for each in systems:
        if each.system == "macos" and each.minimum is None:
            yield NotInspected(sentence=f"this check does not know what {each.name} promises")
    claim = lowest_claims(systems).get(plain_architecture(library.architecture))
    if claim is None:
        return  # no claimed interpreter loads this slice
    promised, platform = claim
    code = f"its {format_architecture(library.architecture)} code"
    minimum = read_version(library.minimum_os or "0.0")
    if minimum == (0, 0):
        yield NotInspected(sentence=f"{code} does not say which macOS it is built for")
    elif minimum > promised:
        version = "{}.{}".format(*promised)
        statement = (
            f"{code} is built for macOS {library.minimum_os}, but {platform} promises {version}"
        )
        cause = of_newer_build(library.minimum_os)
        if library.chained_fixups and promised < _CHAINED_FIXUPS:
            refused = "dyld before macOS 10.15 refuses it (load command 0x80000034 is unknown)"
            yield Problem(
                path=library.path,
                sentence=f"{statement}: {refused}",
                facts=(library.architecture,),
                cause=cause,
            )
        elif minimum[0] == promised[0] >= FIRST_BY_YEARS and not exact:
            yield Note(sentence=statement)
        else:
            yield Problem(
                path=library.path,
                sentence=statement,
                facts=(library.architecture,),
                level=Level.WARNING,
                cause=cause,
                consequence=True,
            )


def _require_macos(package: Package) -> None:
    if all(claim.system != "macos" for claim in package.claims.systems):
        raise NotApplicable("no platform tag is for macOS")


def _is_for_macos(library: MachOFile) -> bool:
    """Return whether an object is for macOS; if it states no platform, dyld assumes macOS."""
    return not library.platforms or "macos" in library.platforms


@check
def not_for_macos(library: MachOFile, package: Package) -> Iterator[Finding]:
    """An object in a wheel for macOS is built for another Apple system.

    Why: dyld refuses it: "mach-o file, but is an incompatible platform".
    Fix: build with the macOS SDK (``xcrun --sdk macosx``), ``-target arm64-apple-macos11``.
    Level: no user can load the file.
    """
    _require_macos(package)
    if library.kind in _LOADED and not _is_for_macos(library):
        code = f"its {format_architecture(library.architecture)} code"
        yield Problem(
            path=library.path,
            sentence=f"{code} is for {', '.join(library.platforms)}: macOS does not load it",
            facts=(library.architecture,),
        )


@check
def dead_macos_tag(wheel: Wheel) -> Iterator[Finding]:
    """A platform tag names a macOS version that no installer looks for.

    From macOS 11 on, the second number of a tag is always 0, and no tag for arm64 alone is older
    than that; universal2 may be. Alongside a tag that installers look for, it is merely useless.

    Why: no Mac installs the wheel; pip builds from source, or finds no version at all.
    Fix: write ``macosx_11_0`` for 11.0 and the next whole number for 11.1 and later.
    Level: nobody can install the wheel.
    """
    tags = [tag for platform in wheel.platforms if (tag := parse_mac_tag(platform))]
    if not tags:
        raise NotApplicable("no platform tag is for macOS")
    alive = {name for tag in tags if tag.is_looked_for for name in tag.architectures}
    for tag in tags:
        if tag.is_looked_for:
            continue
        sentence = f"no installer looks for {tag.platform}: pip does not know this macOS version"
        if alive.issuperset(tag.architectures):
            yield Note(sentence=sentence)
        else:
            yield Problem(sentence=sentence, facts=(tag.platform,))


@check
def duplicate_rpath(library: MachOFile) -> Iterator[Finding]:
    """A search path is listed twice, with or without a trailing slash.

    For files linked with an SDK older than macOS 15's it is only noted: numpy 1.26 has such
    libraries and imports everywhere.

    Why: since macOS 15.4 dyld refuses such a file: "duplicate LC_RPATH".
    Fix: remove one with ``install_name_tool -delete_rpath`` and sign again; look for two build
    steps that both pass ``-rpath``.
    Level: on macOS 15.4 and later the file does not load.
    """
    if library.kind not in _LOADED:
        return
    plain = [rpath.rstrip("/") for rpath in library.rpaths]
    for rpath in sorted({rpath for rpath in plain if plain.count(rpath) > 1}):
        statement = f"has LC_RPATH {shorten(rpath) or '/'} {plain.count(rpath)} times"
        if library.sdk and read_version(library.sdk) < _STRICT_SDK:
            yield Note(
                sentence=f"{statement}, which dyld allows in files linked with SDK {library.sdk}"
            )
        else:
            yield Problem(
                path=library.path,
                sentence=f"{statement}: macOS 15.4 and later refuse to load it",
                facts=(rpath or "/",),
            )


@check
def needed_outside_system(
    library: MachOFile, linkage: Linkage | Package, *, allowed: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """An object needs a library by an absolute path that is not part of macOS, or not for programs.

    Weak dependencies (LC_LOAD_WEAK_DYLIB), which may be missing, are only noted. macOS has
    ``/usr/lib/libssl.dylib`` and ``/usr/lib/libcrypto.dylib``, but no program may load them.

    Why: the path exists on the build machine: elsewhere dyld refuses the object, "Library not
    loaded", or loads the file that another program put there. Since macOS 10.15 the two libraries
    without a version end the process: "loading libcrypto in an unsafe way".
    Fix: bundle the library (``delocate-wheel``), link it statically, or have users install it and
    accept the problem with that reason.
    Level: users who lack the library cannot load the file. It is a warning if no import reaches it,
    or the package continues without it (see missing-library), or if the path is where the installer
    of software like R puts it, which users install themselves.
    """
    for need in library.needed:
        if need.name in _TRAPS and need.name not in allowed:
            sentence = f"needs {need.name}, which ends the process since macOS 10.15"
            problem = Problem(
                path=library.path,
                sentence=f"{sentence}; bundle OpenSSL (delocate-wheel), or link it statically",
                facts=(need.name,),
                cause=of_library(need.name),
            )
            yield downgrade(problem, linkage)
        if not need.name.startswith("/") or need.name.startswith(_SYSTEM) or need.name in allowed:
            continue
        places = (statement for place, statement in _PLACES.items() if need.name.startswith(place))
        sentence = f"needs {shorten(need.name, 200)}, {next(places, _ELSEWHERE)}"
        if need.weak:
            yield Note(sentence=sentence)
        else:
            problem = Problem(
                path=library.path,
                sentence=sentence,
                facts=(need.name,),
                cause=of_library(need.name),
            )
            yield downgrade(problem, linkage, _find_edge(library, need.name, linkage))


def _find_edge(library: MachOFile, needed: str, linkage: Linkage | Package) -> Edge | None:
    if isinstance(linkage, Package):
        return None
    edges = linkage.edges_of(library.path, library.architecture)
    return next((edge for edge in edges if edge.needed == needed), None)


@check
def unsigned_arm64_code(library: MachOFile, package: Package) -> Iterator[Finding]:
    """An object for Apple silicon has no code signature.

    Objects in a wheel for iOS are not judged: they are signed as part of an app.

    Why: macOS refuses arm64 code without at least an ad-hoc signature: "code has to be at least
    ad-hoc signed". Intel code needs none.
    Fix: ``codesign --force --sign -`` after the last change to the file; linkers sign by default.
    Level: no user of Apple silicon can load the file.
    """
    if not any(claim.system in {"macos", ANY_SYSTEM} for claim in package.claims.systems):
        raise NotApplicable("nothing says that it is for macOS")
    arm64 = plain_architecture(library.architecture) == "aarch64"
    if library.kind in _LOADED and arm64 and not library.signed:
        sentence = "its arm64 code is not signed: macOS refuses to load it"
        yield Problem(path=library.path, sentence=sentence, command=SIGN)


@check
def broken_code_signature(library: MachOFile) -> Iterator[Finding]:
    """An object was changed after it was signed.

    Why: macOS kills the process ("Code Signature Invalid") when it reads a changed page: on Apple
    silicon always, on Intel in every process with the hardened runtime.
    Fix: ``codesign --force --sign -`` after strip, install_name_tool and any other tool that edits
    the file.
    Level: macOS kills the user's process.
    """
    if library.kind not in _LOADED:
        return
    for fault in library.signature_faults:
        sentence = f"{format_architecture(library.architecture)}: {fault}"
        yield Problem(
            path=library.path, sentence=sentence, facts=(library.architecture,), command=SIGN
        )


# Whether universal binaries have code for each architecture, and the same library in each slice.

_CURRENT = frozenset({"x86_64", "aarch64"})
"""The architectures of current Pythons; slices for older ones are not required."""
_WORDS = {"x86_64": r"x86[_-]64|amd64|x64|intel", "aarch64": "arm64|aarch64"}


@check
def missing_slice(library: MachOFile, package: Package) -> Iterator[Finding]:
    """A file in a wheel for two architectures has code for only one of them.

    Files with an architecture in their path are exempt, and so are libraries that only code for the
    same architectures needs, such as libgfortran in numpy's universal2 wheels.

    Why: on the other architecture the file does not load: "incompatible architecture"; a program
    for Intel runs on Apple silicon only if Rosetta is installed.
    Fix: build for both (``ARCHFLAGS="-arch arm64 -arch x86_64"``) or merge two builds with
    ``delocate-merge`` or ``lipo``; Homebrew's libraries are for one architecture. A wheel that is
    for one architecture as a whole may instead get its tag (``wheel tags --remove --platform-tag
    macosx_11_0_arm64``).
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
            names = ", ".join(map(format_architecture, sorted(present)))
            yield Problem(
                path=library.path,
                sentence=f"has code for {names} only, but the tags promise "
                f"{format_architecture(missing)}",
                facts=(missing,),
            )


def _is_named(path: str, architecture: str) -> bool:
    words = _WORDS.get(architecture, architecture)
    return bool(re.search(rf"(?<![^\W_])(?:{words})(?![^\W_])", path.lower()))


def _find_slices(library: MachOFile, package: Package) -> tuple[MachOFile, ...]:
    """Return every slice of the library's file, found by bisection: objects are sorted by path."""
    start = bisect_left(package.objects, library.path, key=lambda item: item.path)
    following = (package.objects[place] for place in range(start, len(package.objects)))
    slices = takewhile(lambda item: item.path == library.path, following)
    return tuple(item for item in slices if isinstance(item, MachOFile))


def _is_wanted(library: MachOFile, missing: str, package: Package) -> bool:
    """Whether code for that architecture needs the file, or may need it."""
    name = parse_extension_name(library.path)
    if library.kind is Kind.EXECUTABLE or is_extension(library) or (name and name.tagged):
        return True
    users = package.derive(_find_users).get(library.file_name)
    return not users or missing in users


def _find_users(package: Package) -> dict[str, set[str]]:
    """Map the name of each needed file to the architectures of the code that needs the file."""
    found: dict[str, set[str]] = {}
    for item in package.objects_of(MachOFile):
        for need in item.needed:
            users = found.setdefault(need.name.rpartition("/")[2], set())
            users.add(plain_architecture(item.architecture))
    return found
