"""What objects need and export, and the libraries that a build is made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from binary_checks.declaring import difference
from binary_checks.differences.changes import describe, list_names
from binary_checks.knowledge.inventory import find_strings
from binary_checks.knowledge.library_names import strip_graft
from binary_checks.knowledge.linked_libraries import (
    is_grafted,
    is_module,
    library_of_file,
    loose_name,
    pair_objects,
    plain_path,
)
from binary_checks.knowledge.python_libraries import is_python_dll
from binary_checks.knowledge.tags import is_loaded
from binary_checks.model import (
    Build,
    Change,
    Edge,
    ElfFile,
    Kind,
    LinkedLibraries,
    LinkedLibrary,
    Linking,
    MachOFile,
    ObjectFile,
    Package,
    Severity,
    StaticArchive,
    readable_name,
)
from binary_checks.wording.sentences import format_symbols

# parts of the C library and of Windows, which every process has
_ALWAYS_THERE = re.compile(
    r"(?i)lib(?:c|m|pthread|dl|rt|util)\.so\.\d+|ld-linux.*|libc\.musl-.*|ld-musl-.*|linux-vdso.*|"
    r"(?:api|ext)-ms-.*|kernel32\.dll|ntdll\.dll|ucrtbase\.dll|/usr/lib/libSystem\.B\.dylib"
)


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
        what = ", ".join(names)
        yield from list_names("objects", paths, severity, f"now needs {what}", f"now need {what}")
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
        inside = "which is in the package, but no search path leads there"
        why = inside if name in own else "which is not found"
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
    known = {path for _, paths in before for path in paths}
    there = {path for _, paths in after for path in paths}
    absolute = sorted(path for path in there - known if path.startswith("/"))
    if there - known or any(path.startswith("/") for path in known - there):
        text = f"{_format_paths(after)}, previously {_format_paths(before)}"
        yield Change(
            severity=Severity.CHANGE if absolute else Severity.INFO,
            sentence=f"has {'an absolute search path' if absolute else 'other search paths'}"
            f": {text}",
            together=f"have {'new absolute' if absolute else 'other'} search paths",
            detail=text,
        )


def _format_paths(paths: list[tuple[str, tuple[str, ...]]]) -> str:
    return (
        ", ".join(f"{key} {':'.join(value) or 'that is empty'}" for key, value in paths) or "none"
    )


def _paths_of(item: ElfFile | MachOFile) -> list[tuple[str, tuple[str, ...]]]:
    found = (
        [("LC_RPATH", item.rpaths)]
        if isinstance(item, MachOFile)
        else [("RPATH", item.rpath), ("RUNPATH", item.runpath)]
    )
    return [(key, value) for key, value in found if value]


_NAMED = 3
_NOBODY_LINKS = (
    # symbols that linkers add by themselves (GNU ld's scripts, LLD, ld64, nvcc's device linker)
    re.compile(
        r"^(?:_init|_fini|_edata|edata|_end|end|_etext|etext|__bss_start(?:__)?|__bss_end__|"
        r"_bss_end__|__end__|__data_start|_DYNAMIC|_GLOBAL_OFFSET_TABLE_|"
        r"_PROCEDURE_LINKAGE_TABLE_|__(?:init|fini|preinit)_array_(?:start|end)|__dso_handle|"
        r"_IO_stdin_used|__x86\.get_pc_thunk\.\w+|__cudaRegisterLinkedBinary_.*|__fatbinwrap_.*|"
        r"__device_stub__.*|__gmon_start__|_mh_\w+|dyld_stub_binder|__odr_asan.*)\Z"
    ),
    # names of the C++ standard library in the Itanium mangling (section 5.1 of the C++ ABI)
    re.compile(
        r"^_Z(?:GV|GR|GTt|T[VTIScvh])?(?:\d+_)*"
        r"(?:N[rVK]*[RO]?)?(?:S[tabsiod]|10__cxxabiv1|9__gnu_cxx|6__pstl)"
    ),
    # the same in Microsoft's mangling: ?what@std@@...
    re.compile(r"^\?(?:(?!@@).)*@std@@"),
    # templates of CUDA's header-only libraries: each library has its own copies
    re.compile(
        r"^_ZN[rVK]*[RO]?"
        r"(?:6thrust|3cub|4cuda3std|4cuda3__4|14at_cuda_detail|5nvtx3|7cutlass|4cute)"
    ),
    # anonymous namespaces, variables of functions and their guards, lambdas, names of types,
    # operators new and delete, and pieces that compilers split off: no other library's code can
    # refer to them
    re.compile(
        r"_ZGV|_ZZ|_ZTS|^_Z(?:nw|na|dl|da)|\?\$TSS\d|@\?\d+\?\?|^\?\?_C@|_GLOBAL__(?:N_|sub_I_)|"
        r"\?A0x[0-9a-f]{8}@|Ul\w*E\d*_|\.(?:part|cold|constprop|isra|llvm)\b"
    ),
)
"""The names of symbols with which nobody links."""


@difference
def exports(old: ObjectFile, new: ObjectFile) -> Iterator[Change]:
    """Symbols that a library no longer exports: whatever was linked with it fails to load.

    An extension module is called through its PyInit function alone. Nobody links with a grafted
    library, or with instances of the standard library's templates. Weak symbols are not compared:
    they come from inline functions and templates, and each object that uses these has a copy.
    """
    if not _is_library(old):
        return
    if _is_renamed(old, new):
        yield Change(
            severity=Severity.BREAK,
            sentence=f"goes by the name {new.name}, previously {old.name}: programs linked with it "
            "look for the old name",
            together="go by other names: programs linked with them look for the old names",
            detail=f"previously {old.name.rpartition('/')[2]}",
            noun="libraries",
        )
        return
    strong, weak = _find_gone(old, new)
    names = list(dict.fromkeys(map(readable_name, sorted(strong) or sorted(weak))))
    if names:
        count = len(strong) or len(weak)
        shown = [*names[:_NAMED], *names[:1] * (count - len(names[:_NAMED]))]  # overloads count
        what = f"{'' if strong else 'weak '}export{'' if count == 1 else 's'}"
        further = f", and {len(weak):,} weak" if strong and weak else ""
        listed = format_symbols(shown, min(_NAMED, len(names)))
        yield Change(
            severity=Severity.BREAK if strong else Severity.INFO,
            sentence=f"lost {count:,} {what}{further} ({listed})",
        )
    if isinstance(old, ElfFile) and isinstance(new, ElfFile):
        for version in sorted({*old.defined_versions} - {*new.defined_versions}):
            yield Change(
                severity=Severity.BREAK, sentence=f"no longer defines the version {version}"
            )


@difference
def imported_exports(old: Package, new: Package) -> Iterator[Change]:
    """Weak exports of ELF libraries that are gone although objects of the old build import them.

    Code that includes an inline function or a template has its own weak symbol of it, and does not
    need the symbol of a library. A weak symbol that objects import comes from an explicit
    instantiation, which users' code imports, too.
    """
    for pair in pair_objects(old, new).pairs:
        library = isinstance(pair.old, ElfFile) and _is_library(pair.old)
        if not library or _is_renamed(pair.old, pair.new):
            continue
        weak = _find_gone(pair.old, pair.new)[1]
        others = (item for item in old.objects_of(ElfFile) if item.path != pair.old.path)
        wanted = weak and {name for item in others for name in item.imports.among(weak)}
        if wanted:
            plural = "" if len(wanted) == 1 else "s"
            text = f"lost {len(wanted):,} export{plural} that other objects"
            shown = format_symbols(list(dict.fromkeys(map(readable_name, sorted(wanted)))))
            yield Change(
                severity=Severity.BREAK,
                subject=pair.subject,
                sentence=f"{text} of the old build imported ({shown})",
                noun="libraries",
            )


def _find_gone(old: ObjectFile, new: ObjectFile) -> tuple[frozenset[str], frozenset[str]]:
    """Return the exports that are gone: the strong ones, and the weak ones."""
    gone = frozenset(
        name
        for name in old.exports.names - new.exports.names
        if not any(pattern.search(name) for pattern in _NOBODY_LINKS)
    )
    weak = frozenset(name for name in gone if all(e.weak for e in old.exports.find(name)))
    return gone - weak, weak


def _is_library(item: ObjectFile) -> bool:
    """Whether other code may be linked with the object."""
    return item.kind is Kind.SHARED and not is_grafted(item) and not is_module(item)


def _is_renamed(old: ObjectFile, new: ObjectFile) -> bool:
    """Whether the soname or install name has changed, so that loaders look for another file."""
    one, other = (strip_graft(item.name.rpartition("/")[2]) for item in (old, new))
    return bool(one and other) and one.lower() != other.lower()


@difference
def bundled_libraries(old: Build, new: Build) -> Iterator[Change]:
    """The libraries of other projects that a build contains, by their file names.

    Libraries whose own texts state their version are compared by `linked-versions`.
    """
    before, after = (
        {
            strip_graft(item.file_name)
            for item in build.package.objects
            if item.kind is Kind.SHARED and is_grafted(item)
        }
        for build in (old, new)
    )
    one, other = (
        {each.name for each in _by_name(build.linked).values() if each.version}
        for build in (old, new)
    )
    versioned = one & other
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
    lost = ("is no longer bundled", "are no longer bundled")
    yield from list_names("libraries", replaced.values(), Severity.CHANGE, *lost)


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
    static = {name for name, each in after.items() if each.linking is Linking.STATIC}
    added = (f"{name} {after[name].version}".strip() for name in static - before.keys())
    found = ("is linked statically now", "are linked statically now")
    yield from list_names("libraries", added, Severity.CHANGE, *found)
    static = {name for name, each in before.items() if each.linking is Linking.STATIC}
    lost = ("is no longer found linked statically", "are no longer found linked statically")
    yield from list_names("libraries", static - after.keys(), Severity.INFO, *lost)


def _by_name(found: LinkedLibraries | None) -> dict[str, LinkedLibrary]:
    """Return the linked libraries by name; leave out libraries that are linked in two ways."""
    grouped: dict[str, list[LinkedLibrary]] = {}
    for each in found.libraries if found else ():
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
        # The file name of a module is not enough: a changed std::string breaks users of libraries.
        is_imported = any(name.startswith("PyInit_") for name in old.exports.names)
        severity = Severity.INFO if is_imported else Severity.BREAK
        phrase = f"libstdc++'s {now} std::string, previously the {was} one"
        yield describe(severity, "use", phrase)


def _find_abi(item: ElfFile | StaticArchive) -> str:
    """Return which of the two std::string types an object uses; "" for neither or both."""
    if isinstance(item, ElfFile):
        new, old = map(bool, find_strings(item))
    else:
        new, old = bool(item.strings.new), bool(item.strings.old)
    return "" if new is old else "new (cxx11)" if new else "old (pre-cxx11)"
