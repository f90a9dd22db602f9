"""Properties of an object that loaders refuse, or that make a process less safe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.gaps import find_unloaded, find_unread
from binary_checks.knowledge.loading import downgrade, soften
from binary_checks.knowledge.tags import compare_architectures
from binary_checks.model import (
    ANY_SYSTEM,
    ElfFile,
    Finding,
    Kind,
    Level,
    Linkage,
    Note,
    NotInspected,
    Package,
    Problem,
    TargetSystem,
    is_extension,
)
from binary_checks.wording.problem_lines import of_damage, of_other_architecture
from binary_checks.wording.sentences import name_first

_LOADED = (Kind.SHARED, Kind.EXECUTABLE)
# since Windows 10 the system's own, whatever lies next to a program
_OF_WINDOWS = ("ucrtbase.dll", "api-ms-win-")
_LARGEST_PAGE = {"aarch64": 0x10000, "ppc64le": 0x10000, "ppc64": 0x10000, "loongarch64": 0x4000}
"""Largest page size, in bytes, of kernels for these architectures, by default or in some builds."""
_LARGEST_PAGE_OF_ANDROID = {"aarch64": 0x4000, "x86_64": 0x4000}
"""The alignment of segments, in bytes, with which libraries load on Android."""
_REFUSED_BY_ANDROID = ": Android's loader refuses it"
_STATIC_TLS = 1664
"""Bytes that glibc before 2.32 keeps for libraries that are opened later; 1.5 KiB since."""


@check
def executable_stack(library: ElfFile, target: TargetSystem | Package) -> Iterator[Finding]:
    """An object asks for an executable stack, or does not say that it needs none.

    Without PT_GNU_STACK the architecture's default applies: on x86, 32-bit ARM and s390x that is
    an executable stack.

    Why: glibc 2.41 and later refuse to load it into a running Python; older ones make the stack of
    the whole process executable.
    Fix: add ``.section .note.GNU-stack,"",@progbits`` to each assembly source, or link with
    ``-Wl,-z,noexecstack``.
    Level: with glibc 2.41 and later the import fails. It is a warning for programs, and for
    libraries with musl: both still load.
    """
    if library.kind not in _LOADED or not library.executable_stack:
        return
    sentence = "asks for an executable stack (PT_GNU_STACK with PF_X)"
    if not library.stack_header:
        sentence = f"has no PT_GNU_STACK, which on {library.architecture} means an executable stack"
    if isinstance(target, Package) and all(
        claim.system != ANY_SYSTEM for claim in target.claims.systems
    ):
        # Toolchains for MIPS always ask for one; whether Android's loader accepts it is not known
        # either.
        why = "it is not known whether its system's loader accepts that"
        yield NotInspected(path=library.path, sentence=f"{sentence}: {why}")
        return
    for_musl = isinstance(target, TargetSystem) and target.libc == "musl"
    loads = library.kind is Kind.EXECUTABLE or for_musl
    level = Level.WARNING if loads else Level.ERROR
    command = "patchelf --clear-execstack {path}"
    yield Problem(path=library.path, sentence=sentence, level=level, command=command)


@check
def text_relocations(library: ElfFile, package: Package) -> Iterator[Finding]:
    """An object has relocations in its code (text relocations).

    If DT_TEXTREL is set although no relocation lies in code or constants (a linker that merges
    sections may set it), this is only noted: the loader makes the pages writable for a moment, and
    changes nothing in them. Android's loader looks at DT_TEXTREL alone.

    Why: Android and hardened systems refuse it (SELinux's execmod); elsewhere each process gets its
    own copy of the code, writable while it is loaded.
    Fix: compile everything linked into it with ``-fPIC``; link with ``-Wl,-z,text``, which names
    the culprit.
    Level: Android never loads it. Elsewhere it is a warning: glibc and musl load it, and only
    hardened systems refuse it.
    """
    if library.kind not in _LOADED or not library.text_relocations:
        return
    if _is_for_android(package):
        yield Problem(path=library.path, sentence=f"has DT_TEXTREL set{_REFUSED_BY_ANDROID}")
    elif library.code_relocations == 0:
        yield Note(sentence="has DT_TEXTREL set, but no relocation in its code: nothing is changed")
    else:
        number = library.code_relocations or "some"
        noun = "relocation" if number == 1 else "relocations"
        sentence = f"has {number} {noun} in its code or constants (DT_TEXTREL)"
        yield Problem(path=library.path, sentence=sentence, level=Level.WARNING)


def _is_for_android(package: Package) -> bool:
    return {claim.system for claim in package.claims.systems} == {"android"}


@check
def writable_executable_segment(library: ElfFile, package: Package) -> Iterator[Finding]:
    """A segment of an object is both writable and executable.

    Why: Android and hardened systems (SELinux, PaX) refuse to map it, and any memory-corruption bug
    can overwrite code.
    Fix: look for assembly sections with the flags ``"awx"``, or a linker script or option
    (``-N``, ``--omagic``) that merges segments.
    Level: Android does not load it since API level 26. Elsewhere it is a warning: it loads, except
    on hardened systems; a mitigation is missing.
    """
    if library.kind in _LOADED and library.writable_executable:
        sentence = "has a segment that is writable and executable (PT_LOAD with PF_W and PF_X)"
        if _is_for_android(package):
            yield Problem(path=library.path, sentence=sentence + _REFUSED_BY_ANDROID)
        else:
            yield Problem(path=library.path, sentence=sentence, level=Level.WARNING)


@check
def segment_alignment(library: ElfFile, package: Package) -> Iterator[Finding]:
    """An object's segments are aligned to smaller pages than some kernels have.

    Why: on a kernel with larger pages the loader refuses it: "ELF load command alignment not
    page-aligned". Kernels for aarch64 and POWER with 64 KiB pages are common. Devices with Android
    15 or newer may have 16 KiB pages: "program alignment (4096) cannot be smaller than system page
    size (16384)".
    Fix: link with ``-Wl,-z,max-page-size=65536``, the linker's default there, or 16384 for Android;
    run patchelf with ``--page-size 65536``.
    Level: on kernels with larger pages the import fails. It is a warning for Android, whose loader
    has a compatibility mode, which users may turn on.
    """
    systems = {claim.system for claim in package.claims.systems}
    pages = _LARGEST_PAGE if systems & {"linux", ANY_SYSTEM} else _LARGEST_PAGE_OF_ANDROID
    largest = pages.get(library.architecture, 0)
    if library.kind not in _LOADED or not 0 < library.alignment < largest:
        return
    if pages is _LARGEST_PAGE_OF_ANDROID:
        sentence = (
            f"has segments aligned to {library.alignment:#x} bytes: Android devices with pages of "
            f"{largest:#x} bytes load it in a compatibility mode alone"
        )
        yield Problem(path=library.path, sentence=sentence, level=Level.WARNING)
    else:
        yield (
            f"has segments aligned to {library.alignment:#x} bytes;"
            f" kernels for {library.architecture} have pages of up to {largest:#x}"
        )


@check
def static_tls_budget(
    linkage: Linkage, package: Package, target: TargetSystem, *, budget: int = _STATIC_TLS
) -> Iterator[Finding]:
    """Libraries that one import loads need more static thread-local storage than there is.

    musl has none at all for libraries that are loaded after the start of the process. In a
    musllinux wheel, a library counts if its code fixes the place of a thread-local variable
    (initial-exec), whatever its size; ``budget`` has no effect there.

    Why: "cannot allocate memory in static TLS block": glibc reserves a fixed block for everything
    that is loaded after the start, and the package fails depending on what was imported before.
    musl always fails: "initial-exec TLS resolves to dynamic definition".
    Fix: compile libraries that are opened with ``dlopen`` without ``-ftls-model=initial-exec``, or
    make the thread-local data smaller. jemalloc has ``--disable-initial-exec-tls``, mimalloc
    ``MI_LOCAL_DYNAMIC_TLS``.
    Level: the import fails, depending on what was imported before; with musl always. In a folder it
    is a warning for libraries that are not extension modules: programs may be linked to them, which
    works. It is also a warning if no import reaches the library (see missing-library), or if
    nothing needs it by name and it replaces ``malloc``: such a library may be preloaded
    (``LD_PRELOAD``), as filprofiler's is, and has its place from the start.
    """
    yield from find_unloaded(linkage, package)
    if target.libc == "musl" or any(tag.startswith("musllinux") for tag in target.unjudged):
        yield from _judge_fixed_places(linkage, package)
    if target.libc == "musl":
        return
    objects = {item.path: item for item in package.objects_of(ElfFile)}
    judged: set[tuple[str, ...]] = set()
    for root, closure in linkage.closures:
        members = (objects[path] for path in dict.fromkeys((root, *closure)) if path in objects)
        loaded = tuple(members)
        users = tuple(item for item in loaded if item.static_tls and item.tls_size)
        total = sum(item.tls_size for item in users)
        paths = tuple(sorted(item.path for item in users))
        starts_process = root in objects and objects[root].kind is Kind.EXECUTABLE
        if starts_process or total <= budget or paths in judged:
            continue
        judged.add(paths)
        shares = (f"{item.file_name} {item.tls_size}" for item in users)
        extension = root in objects and is_extension(objects[root])
        linked = package.claims.partial and not extension
        needs = f"needs {total} bytes of static TLS, about {budget} are available: "
        problem = Problem(
            path=root,
            sentence=("opened by dlopen it " if linked else "its import ")
            + needs
            + name_first(tuple(shares)),
            level=Level.WARNING if linked else Level.ERROR,
        )
        yield downgrade(_expect_preload(problem, objects.get(root)), linkage)


def _expect_preload(problem: Problem, root: ElfFile | None) -> Finding:
    """Return the problem, as a warning if its root is a library that is made to be preloaded."""
    if root is None or is_extension(root) or not root.exports.among(("malloc",)):
        return problem
    return soften(problem, "it replaces malloc, and works where it is preloaded (LD_PRELOAD)")


def _judge_fixed_places(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """Judge the relocations that musl refuses after the start (``do_relocs`` in ldso/dynlink.c).

    A variable of the program itself, or of a library that it is linked with, has a fixed place.
    """
    objects = {item.path: item for item in package.objects_of(ElfFile)}
    judged: set[str] = set()
    for root, closure in linkage.closures:
        loaded = [objects[path] for path in dict.fromkeys((root, *closure)) if path in objects]
        if root in objects and objects[root].kind is Kind.EXECUTABLE:
            continue
        wanted = {name for item in loaded for name in item.initial_exec or () if name}
        owners = {name: item for item in reversed(loaded) for name in item.exports.among(wanted)}
        for item in loaded:
            if item.path in judged or not item.static_tls:
                continue
            judged.add(item.path)
            if item.initial_exec is None:
                sentence = "its relocations of thread-local variables could not be read"
                yield NotInspected(path=item.path, sentence=sentence)
                continue
            owners_of = {name: owners.get(name) if name else item for name in item.initial_exec}
            # without PT_TLS nothing moves: musl only compares the numbers of TLS modules
            moving = [(name, each) for name, each in owners_of.items() if each and each.tls_size]
            for name, owner in moving[:1]:
                problem = _refuse_fixed_place(item, name, owner, package)
                yield downgrade(
                    _expect_preload(problem, item if item.path == root else None), linkage
                )


def _refuse_fixed_place(item: ElfFile, name: str, owner: ElfFile, package: Package) -> Problem:
    of_other = f" {name}" if name else ""
    of_other += f" of {owner.file_name}" if owner.path != item.path else ""
    linked = package.claims.partial and not is_extension(item)
    return Problem(
        path=item.path,
        sentence=f"has the place of thread-local data{of_other} fixed (initial-exec): musl refuses "
        "to load it after the start of the process; build it without -ftls-model=initial-exec",
        facts=(name,) if name else (),
        level=Level.WARNING if linked else Level.ERROR,
    )


@check
def isa_level_over_baseline(library: ElfFile, linkage: Linkage | Package) -> Iterator[Finding]:
    """An object declares that it needs a newer CPU than its platform tag promises.

    Only the declaration is read (GNU_PROPERTY_X86_ISA_1_NEEDED), no instruction: code for newer
    CPUs that declares nothing passes, and so does code for macOS and Windows. For
    ``-march=native`` see compiled-for-build-machine. Run the tests of the built package on the
    oldest CPU that it is for, or in an emulator of one (``qemu-x86_64 -cpu Nehalem``).

    Why: a platform tag promises the baseline CPUs of its architecture. On these the loader refuses
    the object ("CPU ISA level is lower than required"), even if only a few functions use the newer
    instructions.
    Fix: compile without ``-march=x86-64-v2`` and the like (some distributions' compilers have it by
    default), or choose the code at run time; a library for newer CPUs belongs in ``glibc-hwcaps``.
    Level: on older CPUs the import fails. x86-64-v2, which CPUs have had since 2011, is a warning,
    and so is an object that no import reaches (see missing-library).
    """
    if library.isa_level and "glibc-hwcaps" not in PurePosixPath(library.path).parts:
        sentence = f"needs a CPU of level {library.isa_level}; the platform tag promises any x86-64"
        level = Level.WARNING if library.isa_level == "x86-64-v2" else Level.ERROR
        yield downgrade(
            Problem(path=library.path, sentence=sentence, facts=(library.isa_level,), level=level),
            linkage,
        )


@check
def compiled_for_build_machine(library: ElfFile, linkage: Linkage | Package) -> Iterator[Finding]:
    """An object was compiled for the CPU of the build machine (``-march=native``).

    GCC records that in the object's debug information. An object without debug information, or
    from another compiler, passes.

    Why: the compiler may use every instruction of that CPU anywhere; on a CPU that lacks one, the
    process ends with "Illegal instruction".
    Fix: compile without ``-march=native``; look for it in ``CFLAGS``, ``extra_compile_args`` and
    the files of CMake and Meson. Compile functions for newer CPUs separately, and choose at run
    time.
    Level: users with other CPUs cannot use the package. It is a warning if no import reaches the
    object (see missing-library).
    """
    if library.native_cpu:
        sentence = (
            f"was compiled with -march=native on a {library.native_cpu}: elsewhere it may end the "
            "process with an illegal instruction"
        )
        yield downgrade(Problem(path=library.path, sentence=sentence), linkage)


@check
def wrong_architecture(package: Package, linkage: Linkage | Package) -> Iterator[Finding]:
    """An object is for another architecture than the wheel's platform tags name.

    An architecture includes the convention by which functions are called, as ``e_flags`` states it:
    the tag armv7l means floating-point arguments in registers and not ``armel``, ppc64le version 2
    of its ABI, riscv64 and loongarch64 arguments of double precision in registers (``lp64d``).

    Every tag of a compressed set is a claim: a tag is wrong, too, if the wheel has no object for
    its architecture. Device code, debug information and linker input are exempt, and so is a wheel
    for ``any`` platform; on Windows also .NET code and programs; on Windows and macOS also
    libraries for other processes, which have the architecture in their name. A module whose suffix
    names another platform, next to a module that fits, is left to foreign-extension-suffix. A
    module in the format of another system, such as an ELF object called
    ``x.cpython-314-darwin.so``, is wrong, too.

    Why: the wheel installs but cannot be imported.
    Fix: correct the tag, or look for the step of a cross build that picked up a host object.
    Level: users cannot import the package. It is a warning for an object that no import reaches
    (see missing-library), for a copy of a library that Windows always takes from itself, such as
    ucrtbase.dll, and if all objects are for other systems, which may be the package's data.
    """
    found = compare_architectures(package.claims.systems, package.objects)
    if found is None:
        raise NotApplicable("no platform tag that names an architecture")
    is_any = found.judged > 0 or bool(found.strangers)
    yield from find_unread(package, found=is_any, absent="no loadable object")
    if found.strangers and not (package.malformed or package.unread):
        claimed = name_first([claim.name for claim in package.claims.systems])
        formats = " and ".join(found.strangers)
        sentence = f"its objects are all of format {formats}, which {claimed} cannot load"
        yield Problem(sentence=sentence, facts=found.strangers, level=Level.WARNING)
    for platform in found.unknown:
        yield NotInspected(sentence=f"the architecture of {platform} is unknown to this check")
    for misfit in found.misfits:
        if misfit.item is None or misfit.of_other_format:
            path = "" if misfit.item is None else misfit.item.path
            yield Problem(path=path, sentence=misfit.sentence, facts=misfit.facts)
            continue
        is_copy = misfit.item.file_name.lower().startswith(_OF_WINDOWS)
        level = Level.WARNING if is_copy else Level.ERROR
        problem = Problem(
            path=misfit.item.path,
            sentence=misfit.sentence,
            facts=misfit.facts,
            level=level,
            cause=of_other_architecture(misfit.item.architecture),
        )
        yield downgrade(problem, linkage)


@check
def malformed_object(package: Package) -> Iterator[Finding]:
    """A file is not a valid object: truncated, damaged, empty, or a git-lfs pointer.

    A text for linkers (``INPUT(libx.so.1)``) is accepted, unless it is named like an extension
    module. A file in a folder of tests that only begins like an object, and is not named like one,
    is noted: it is data in another format.

    Why: no loader accepts it, and its dependencies and symbols cannot be read.
    Fix: look for a checkout without ``git lfs pull``, or for an upload, a strip or a patchelf that
    went wrong, and build it again.
    Level: no loader accepts the file.
    """
    for item in package.malformed:
        place = f"{item.reason} (at byte {item.offset:#x})"
        sentence = f"is a malformed {item.format} file: {place}"
        if item.instead:
            sentence = f"is not in {item.format} format ({item.instead}): no loader accepts it"
        yield Problem(path=item.path, sentence=sentence, cause=of_damage(item))
    for path in package.test_data:
        yield Note(path=path, sentence="only begins like an object file: it is data for tests")
