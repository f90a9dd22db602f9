"""Whether every symbol and symbol version that objects need exists on a user's system."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import product

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.gaps import find_unjudged, find_unloaded
from binary_checks.knowledge.library_names import framework_of
from binary_checks.knowledge.loading import downgrade
from binary_checks.knowledge.tags import (
    describe_nodes,
    find_newer,
    lowest_claims,
    lowest_policy,
    needed_of_system,
    plain_architecture,
    read_version,
    round_up,
)
from binary_checks.knowledge.windows_functions import find_newer_functions
from binary_checks.model import (
    GLIBC_PRIVATE,
    ElfFile,
    Finding,
    Format,
    Level,
    Linkage,
    LowestPolicy,
    MachOFile,
    Note,
    NotInspected,
    Package,
    PeFile,
    Problem,
    TargetSystem,
    UnexploredSymbols,
    UnresolvedSymbol,
    is_extension,
    read_numbers,
)
from binary_checks.systems import policy_for, system_library
from binary_checks.wording.problem_lines import (
    OF_OTHER_STRINGS,
    of_newer_build,
    of_newer_system,
    of_other_version,
    of_symbols,
)
from binary_checks.wording.sentences import (
    count_undefined,
    format_lacking_symbols,
    format_symbols,
    format_symbols_of_requirements,
    format_undefined_symbols,
    name_first,
    retag,
)

_BOUND_TO_LIBRARIES = (Format.MACHO, Format.PE)
_FIRST_ON_ARM = (11, 0)
# The first macOS that compares no compatibility versions, and the first that skips libraries built
# for itself or later.
_NOT_COMPARING, _UNCOMPARED = (12, 0), (10, 14)
_ONE_WIDTH = (3, 3)  # the first Python whose strings have one kind of functions (PEP 393)


@check
def version_newer_than_tag(
    library: ElfFile, linkage: Linkage, target: TargetSystem, lowest: LowestPolicy
) -> Iterator[Finding]:
    """An object needs a newer libc, libstdc++ or other system library than its tag promises.

    Only versions of libraries from the system count; a bundled libstdc++ has its own versions.
    ``GLIBC_PRIVATE`` is reported by itself, since no tag promises it.

    Why: installers trust the tag; on a system as old as it allows, the import fails with "version
    `GLIBC_2.29' not found".
    Fix: build in the image of the tag, or use the lowest correct tag (``auditwheel repair``).
    Level: users of older systems install it and cannot load the file. It is a warning if no import
    reaches the object (see missing-library).
    """
    yield from _find_unpromised(target)
    if target.policy is None:
        return
    needs = needed_of_system(library, linkage)
    newer = [need for need in needs if target.policy.allows(need.version) is False]
    private = [need for need in newer if need.version == GLIBC_PRIVATE]
    if private:
        problem = Problem(
            path=library.path,
            sentence=f"needs {describe_nodes(library, private)}: glibc's own symbols, which "
            "another release may lack; no tag allows that",
            facts=(GLIBC_PRIVATE,),
            fix="do not ship parts of glibc, and do not use its private symbols",
        )
        yield downgrade(problem, linkage)
    newer = [need for need in newer if need.version != GLIBC_PRIVATE]
    if not newer:
        return
    tag = target.name.partition(",")[0]
    own = lowest_policy(needs, target.policies)
    name = f"{lowest.policy.name}_{lowest.policy.architecture}" if lowest.policy else ""
    advice = "no tag allows that"
    if own is not None:
        advice = f"the lowest correct tag is {name}" if name else "no tag allows other objects"
    problem = Problem(
        path=library.path,
        sentence=f"needs {describe_nodes(library, newer)}, newer than {tag} allows; {advice}",
        facts=tuple(sorted({need.version for need in newer})),
        cause=of_newer_system(tag),
        # the object that needs most is the reason for the lowest tag
        consequence=own != lowest.policy,
        command=retag(name) if name else "",
    )
    yield downgrade(problem, linkage)


def _find_unpromised(target: TargetSystem) -> Iterator[NotInspected]:
    """Report tags whose promises are unknown or were not judged."""
    if target.system != "linux":
        raise NotApplicable("no tag is for Linux")
    tag = target.name.partition(",")[0]
    if target.policy is None and tag.startswith("linux"):
        if not target.unjudged:
            raise NotApplicable(f"{tag} does not promise any versions")
    elif target.policy is None:
        yield NotInspected(sentence=f"there is no data on what {tag} promises")
    yield from find_unjudged(target)


@check
def symbol_newer_than_tag(
    library: MachOFile | PeFile, target: TargetSystem, linkage: Linkage | Package
) -> Iterator[Finding]:
    """An object needs a system function that is newer than the macOS or Windows its tag promises.

    A tag for Windows promises Windows 10, on which every current Python runs. The check knows a few
    functions that Windows 10 lacks, such as ``GetTempPath2W``; Microsoft has no list.

    On macOS, weak symbols (``__attribute__((weak_import))``, which the compiler uses for functions
    newer than the deployment target) do not count. The check knows when symbols of libSystem,
    libc++ and some frameworks were added; undefined-symbol notes the others.

    Why: the wheel installs on the older system, and there the import fails with "Symbol not found"
    or "The specified procedure could not be found", or the first call ends the process.
    Fix: build with ``MACOSX_DEPLOYMENT_TARGET`` as low as the tag and ``-Wunguarded-availability``,
    and guard the call with ``__builtin_available``; or raise the tag. On Windows, ask for the
    function with ``GetProcAddress``, and define ``_WIN32_WINNT=0x0A00``.
    Level: users of older systems install it, and the import or a call fails. On Windows it is a
    warning if no import reaches the object (see missing-library).
    """
    if isinstance(library, PeFile):
        yield from _find_newer_than_windows(library, target, linkage)
        return
    if target.minimum_os is None:
        raise NotApplicable("no tag is for macOS")
    yield from find_unjudged(target)
    if library.architecture not in target.architectures:
        return
    promised = max(
        target.minimum_os, _FIRST_ON_ARM if library.architecture == "aarch64" else (0, 0)
    )
    for asked, names in sorted(library.imports.strong.items()):
        system = target.library_data.get(asked)
        newer = find_newer(system, names, promised) if system is not None else {}
        if newer:
            first = max(newer.values())
            latest, tag = "{}.{}".format(*first), "macosx_{}_{}".format(*round_up(first))
            yield Problem(
                path=library.path,
                sentence=f"needs {format_symbols(sorted(newer))} of {asked}, new in macOS "
                f"{latest}, while {target.name.partition(',')[0]} promises "
                f"{'{}.{}'.format(*promised)}",
                facts=(asked, min(newer), library.architecture),
                cause=of_newer_build(library.minimum_os),
                fix=f"{_OF_SYSTEM[Format.MACHO]}; or use the tag ``{tag}``, the lowest that "
                f"promises macOS {latest}",
            )


def _find_newer_than_windows(
    library: PeFile, target: TargetSystem, linkage: Linkage | Package
) -> Iterator[Finding]:
    if target.system != "windows":
        raise NotApplicable("no tag is for Windows")
    for name, asked, since in find_newer_functions(library):
        problem = Problem(
            path=library.path,
            sentence=f"needs {name} of {asked}, new in {since}, while "
            f"{target.name.partition(',')[0]} promises Windows 10, too",
            facts=(asked, name),
            cause=of_newer_system(f"Windows before {since}"),
        )
        yield downgrade(problem, linkage)


_OF_SYSTEM = {
    Format.PE: "ask for the function with ``GetProcAddress``, and define ``_WIN32_WINNT`` for the "
    "oldest Windows that users have",
    Format.MACHO: "build with ``MACOSX_DEPLOYMENT_TARGET`` as low as the tag, and guard the call "
    "with ``__builtin_available``",
}
"""What to do about functions that the system's own libraries lack: nobody ships these."""
_OF_NEWER = (
    "build in the image of the tag, link with the library that has the symbol in older releases, "
    "or use the tag of a newer system"
)
_OF_ABI = "compile everything with one ``-D_GLIBCXX_USE_CXX11_ABI``"


@check
def undefined_symbol(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """An object needs a symbol that nothing defines when it is loaded.

    On macOS and Windows nearly every symbol names its library, and is looked up only in that
    library. Symbols of system libraries whose exports are unknown are assumed to exist, and so are
    symbols named like functions of NVIDIA's driver (``cuInit``, ``nvmlInit_v2``) if an object needs
    the driver; a note gives their number. A symbol that ``-undefined dynamic_lookup`` left open is
    not in a library that the object was linked with, such as ``libz.1.dylib``, since the linker
    would have found it there.

    On Linux, a symbol that is looked up without a version must be in the oldest release that the
    tag promises, in a library that the object or CPython loads: libc.so.6 has ``shm_open`` only
    since glibc 2.34, before that librt.so.1 has it. version-newer-than-tag judges symbols with a
    version.

    Which functions Python 2 has is not known, except for its strings: under the tag cp27mu, Python
    has ``PyUnicodeUCS4_Decode`` and the like, under cp27m ``PyUnicodeUCS2_Decode``.

    Why: Python binds all symbols of an extension module at import, which fails with "undefined
    symbol", "Symbol not found" or "The specified procedure could not be found"; other libraries
    fail at the first call.
    Fix: link the object with the library that defines the symbol, in the version that is shipped.
    The linker reports it on Linux with ``-Wl,-z,defs``, on macOS if it is not told ``-undefined
    dynamic_lookup``.
    Level: the import fails, or the first call ends the process. It is a warning if no import
    reaches the object (see missing-library), or if the package's Python code says ``RTLD_GLOBAL``
    and a given wheel defines the symbol: then the import decides. Symbols that a required wheel may
    define in this way are not inspected until it is given. If a fresh process imports the package,
    and has loaded the object and a library that defines the symbol, the symbol is noted only.
    """
    yield from find_unloaded(linkage, package)
    yield from (downgrade(each, linkage) for each in _find_other_strings(package))
    imported = {item.path for item in package.objects if is_extension(item)}
    # If a whole version node is missing, missing-version reports it once.
    reported = {(item.path, item.provider, item.version) for item in linkage.missing_versions}
    from_system = {
        (e.path, e.needed) for e in linkage.edges if (e.resolved or "").startswith("system:")
    }
    openers = _list_openers(linkage, imported)
    for_android = any(claim.system == "android" for claim in package.claims.systems)
    groups: dict[tuple[str, ...], list[UnresolvedSymbol]] = {}
    for item in linkage.unresolved:
        known = item.delayed or item.proven or (item.path, item.provider, item.version) in reported
        if not known:
            asked = item.library if linkage.format in _BOUND_TO_LIBRARIES else ""
            place = item.elsewhere or item.other_abi
            owner = framework_of(item.name)
            owner = owner if owner in linkage.given else ""
            key = (item.path, item.provider, place, item.root, asked, item.architecture, owner)
            groups.setdefault((*key, item.since, item.before), []).append(item)
    for (path, _, _, root, asked, _, owner, *_), items in groups.items():
        if asked:
            system = (path, asked) in from_system
            problem = Problem(
                path=path,
                sentence=format_lacking_symbols(items, linkage.layout.shorten_label, system=system),
                facts=(asked, min(item.name for item in items)),
                cause=of_symbols(items, linkage),
                fix=_OF_SYSTEM.get(Format(linkage.format), "") if system else "",
            )
            yield downgrade(problem, linkage)
            continue
        expected = bool(items[0].elsewhere) and root not in imported
        sentence = format_undefined_symbols(
            items, linkage.layout.shorten_label, expected=expected, given=owner
        )
        if for_android and all(item.name.startswith(("Py", "_Py")) for item in items):
            names = format_symbols(sorted(item.name for item in items))
            sentence = (
                f"uses {names} and does not need libpython3.x.so, without which Android's loader "
                "finds no function of Python (PEP 738): link it with that library"
            )
        if expected:
            yield NotInspected(path=path, sentence=sentence)
            continue
        if _may_come_from_requirements(items[0], linkage):
            yield NotInspected(path=path, sentence=format_symbols_of_requirements(items, linkage))
            continue
        fix = _OF_ABI if items[0].other_abi else _OF_NEWER if items[0].since else ""
        if _are_glibcs(items, linkage):
            used = format_symbols([item.name for item in items])
            sentence = f"uses {used}, which glibc has, and musl does not"
            fix = "build on a system with musl, where the compiler or the linker reports it"
        may_be_global = linkage.loads_everywhere and items[0].elsewhere.startswith("wheel:")
        if opener := openers.get(path, ""):
            sentence += (
                f"; {linkage.layout.shorten_label(opener)} loads frameworks of macOS, "
                "which may define them"
            )
        level = Level.WARNING if may_be_global or opener else Level.ERROR
        problem = Problem(
            path=path,
            sentence=sentence,
            facts=(min(item.name for item in items), *([] if root == path else [root])),
            level=level,
            cause=of_symbols(items, linkage),
            consequence=bool(items[0].other_abi),
            fix=fix,
        )
        yield downgrade(problem, linkage)
    yield from _note_proven(linkage)
    yield from _report_unexplored(linkage)
    if linkage.unknown_exports:
        total = sum(number for _, number in linkage.unknown_exports)
        names = name_first([name for name, _ in linkage.unknown_exports])
        yield Note(
            sentence=f"{total} symbols of system libraries whose exports are unknown were assumed "
            f"to exist ({names})"
        )


def _find_other_strings(package: Package) -> Iterator[Problem]:
    """Yield modules that were compiled for a Python 2 with strings of another width.

    ``Include/unicodeobject.h`` of CPython up to 3.2 names the functions by the width, which the tag
    states (PEP 513): cx_Oracle 6.0 for cp27mu needs ``PyUnicodeUCS2_Decode``.
    """
    claims = (each for each in package.claims.pythons if each.version and each.version < _ONE_WIDTH)
    abis = {each.abi for each in claims if each.abi.startswith("cp")}
    for abi, item in product(sorted(abis), package.objects):
        has, lacks = ("UCS4", "UCS2") if abi.endswith("u") else ("UCS2", "UCS4")
        names = sorted(each for each in item.imports.names if each.startswith(f"PyUnicode{lacks}_"))
        if names:
            sentence = (
                f"has {count_undefined(len(names))} ({format_symbols(names)}): a Python of {abi} "
                f"has {names[0].replace(lacks, has)} instead; build the file with such a Python"
            )
            yield Problem(
                path=item.path, sentence=sentence, facts=(names[0],), cause=OF_OTHER_STRINGS
            )


def _list_openers(linkage: Linkage, imported: Collection[str]) -> dict[str, str]:
    """Map objects to a module that loads a framework of macOS which they do not need, or to "".

    Flat names are looked up in all that the process has loaded: nautilus_pyo3 of nautilus_trader
    1.231.0 loads Security, whose functions its other modules use without needing it.
    """
    frameworks: dict[str, set[str]] = {}
    modules: dict[str, str] = {}
    for edge in linkage.edges:
        if edge.needed.startswith("/System/Library/Frameworks/"):
            frameworks.setdefault(edge.path, set()).add(edge.needed)
            if edge.path in imported:
                modules.setdefault(edge.needed, edge.path)
    openers: dict[str, str] = {}
    for path in {item.path for item in linkage.unresolved}:
        own = frameworks.get(path, set())
        openers[path] = next((other for name, other in modules.items() if name not in own), "")
    return openers


def _note_proven(linkage: Linkage) -> Iterator[Note]:
    """Note undefined symbols that were defined in a process that imported the package."""
    proven: dict[tuple[str, str], list[str]] = {}
    for item in linkage.unresolved:
        if item.proven:
            proven.setdefault((item.path, item.proven), []).append(item.name)
    for (path, definer), names in proven.items():
        sentence = (
            f"has {count_undefined(len(names))} ({format_symbols(names)}), and importing the "
            f"package loads {linkage.layout.shorten_label(definer)}, which defines "
            f"{'it' if len(names) == 1 else 'them'}"
        )
        yield Note(path=path, sentence=sentence)


def _are_glibcs(items: Iterable[UnresolvedSymbol], linkage: Linkage) -> bool:
    """Return whether glibc's libc defines symbols that a package for musl lacks."""
    policy = policy_for(linkage.target.partition(",")[0])
    if policy is None or policy.libc != "musl" or any(item.elsewhere for item in items):
        return False
    glibc = replace(policy, libc="glibc")
    libc = system_library("libc.so.6", architecture=policy.architecture, policy=glibc)
    return libc is not None and all(item.name in libc.symbols for item in items)


def _may_come_from_requirements(item: UnresolvedSymbol, linkage: Linkage) -> bool:
    """Whether a required package may define the symbol for objects that the process loads later."""
    known = item.elsewhere or item.provider or item.other_abi or linkage.find_dispensable(item.path)
    return linkage.loads_everywhere and bool(linkage.requirements) and not known


def _report_unexplored(linkage: Linkage) -> Iterator[NotInspected]:
    """Report once, for all objects, why symbols could not be looked up."""
    shared: dict[str, list[UnexploredSymbols]] = {}
    for gap in linkage.unexplored:
        shared.setdefault(gap.reason, []).append(gap)
    for reason, group in shared.items():
        counted = count_undefined(sum(gap.count for gap in group))
        several = f" of {len(group)} files" if len(group) > 1 else ""
        yield NotInspected(
            path=group[0].path if len(group) == 1 else "",
            sentence=f"{counted}{several} could not be looked up: {reason}",
        )


@check
def missing_version(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """An object needs a version that its library does not have.

    On Linux this is a symbol version; on macOS it is the library's compatibility version, which
    dyld compares up to macOS 11. In macOS 10.14 and 11 dyld skips it for libraries built for 10.14
    and later (``MachOFile::enforceCompatVersion`` in dyld-625 to dyld-852).

    Why: ld.so checks every needed version at load time, used or not; if the library has no versions
    at all, it aborts the process. The dyld of an old macOS refuses the file: "Incompatible library
    version".
    Fix: bundle the library that the object was linked with.
    Level: no user of a promised system, or of an old one among them, can load the file. It is a
    warning if no import reaches the object (see missing-library).
    """
    yield from find_unloaded(linkage, package)
    yield from _compare_compatibility(linkage, package)
    for item in linkage.missing_versions:
        if item.proven:
            continue
        lacks, then = (
            ("does not define it", "the loader refuses the file")
            if item.versioned
            else ("defines no versions at all", "the loader aborts the process")
        )
        provider = linkage.layout.shorten_label(item.provider)
        sentence = f"needs {item.version} of {item.library}, but {provider} {lacks}: {then}"
        cause = of_other_version(item.provider)
        yield downgrade(
            Problem(
                path=item.path, sentence=sentence, facts=(item.version, item.library), cause=cause
            ),
            linkage,
        )


def _compare_compatibility(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """Compare compatibility versions as dyld does until macOS 11; dyld-940 of macOS 12 does not."""
    slices = {(item.path, item.architecture): item for item in package.objects_of(MachOFile)}
    claims = lowest_claims(package.claims.systems)
    for user in slices.values():
        required = {each.library: each.version for each in user.required_versions}
        promised, _ = claims.get(plain_architecture(user.architecture), (_NOT_COMPARING, ""))
        for edge in linkage.edges_of(user.path, user.architecture) if required else ():
            library = slices.get((edge.resolved or "", user.architecture))
            if library is None or edge.weak or edge.needed not in required:
                continue
            version, own = required[edge.needed], library.compatibility_version or "0.0"
            # the first macOS that loads the library in spite of its compatibility version
            comparing = read_version(library.minimum_os or "0.0") < _UNCOMPARED
            first = _NOT_COMPARING if comparing else _UNCOMPARED
            if read_numbers(own) < read_numbers(version) and promised < first:
                sentence = (
                    f"needs version {version} of {edge.needed}, but "
                    f"{linkage.layout.shorten_label(library.path)} says that it is compatible "
                    f"with {own}: macOS before "
                    "{}.{} does not load the file".format(*first)
                )
                problem = Problem(
                    path=user.path,
                    sentence=sentence,
                    facts=(version, edge.needed),
                    cause=of_other_version(library.path),
                )
                yield downgrade(problem, linkage)


@check
def forbidden_symbol(library: ElfFile, linkage: Linkage, target: TargetSystem) -> Iterator[Finding]:
    """An object uses symbols that an allowed library lacks on some systems.

    Why: the policy allows libz.so.1, but not symbols that are private to one build of it; elsewhere
    the symbol is undefined.
    Fix: bundle the library, or do without the symbol.
    Level: on some systems the import fails. It is a warning if no import reaches the object (see
    missing-library).
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
                sentence = (
                    f"uses {format_symbols(used)} of {edge.needed}, which not all systems have: "
                    "elsewhere it is undefined"
                )
                yield downgrade(
                    Problem(path=library.path, sentence=sentence, facts=(edge.needed, used[0])),
                    linkage,
                )
