"""Faults that appear when a package is installed, imported and loaded in a clean environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from packaging.utils import canonicalize_name
from packaging.version import Version

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.failed_imports import (
    find_judged_owner,
    find_lacking_requirement,
    find_own_part,
    find_remedy,
    name_lack,
)
from binary_checks.knowledge.loaded_files import compare_report
from binary_checks.knowledge.loading import (
    downgrade,
    is_promised,
    judge_refusal,
    soften,
)
from binary_checks.knowledge.python_libraries import find_init_fault, find_python_symbols
from binary_checks.knowledge.tags import find_promised
from binary_checks.model import (
    BrokenSource,
    CodeNames,
    CompiledModules,
    Distribution,
    Edge,
    Ending,
    ExtensionReport,
    Finding,
    ImportReport,
    InstallReport,
    JudgedProjects,
    Level,
    Linkage,
    LoadFault,
    LoadFaultKind,
    LoadReport,
    Note,
    NotInspected,
    Package,
    Problem,
    Rule,
    Step,
    directories,
    find_names_in_extras,
    is_extension,
    read_numbers,
)
from binary_checks.wording.problem_lines import (
    OF_ENABLED_GIL,
    name_end,
    of_broken_source,
    of_library,
    of_need,
    of_other_version,
    of_symbols,
)
from binary_checks.wording.sentences import (
    describe_end,
    find_gil_modules,
    find_shadowed,
    find_unfinished,
    find_untried,
    format_module_name,
    name_first,
    read_stderr,
)


@check
def installation_fails(report: InstallReport) -> Iterator[str]:
    """The package cannot be installed into a fresh environment.

    Why: users cannot get any further.

    Fix: see the installer's message; most often metadata that it cannot read, or requirements that
    conflict or do not exist.

    Level: users cannot install the package.
    """
    if report.error:
        yield f"{report.installer} refuses it: {report.error}"


@check(level=Level.WARNING)
def unrecorded_files(report: InstallReport, package: Distribution) -> Iterator[Finding]:
    """Installation leaves files that the wheel's RECORD does not name.

    Why: nothing vouches for their contents, and some installers leave them behind when the package
    is removed.

    Fix: build the wheel again instead of adding files to it, or rewrite RECORD with
    ``wheel unpack`` and ``wheel pack``.

    Level: the package works; the files are only left behind when it is removed.
    """
    # the parameter excludes conda packages: conda links exactly the files that they list
    del package
    if report.error:
        yield NotInspected(sentence=f"it could not be installed: {report.error}")
    for path in report.unrecorded:
        yield Problem(path=path, sentence="installed, but RECORD does not name it")


@check
def installed_files_differ(report: InstallReport) -> Iterator[Finding]:
    """An installed file differs from the one in the package, or is missing.

    Why: users do not run the files that were built: two archive entries install to one path, or a
    requirement ships a file of the same name.

    Fix: let each file belong to one package only.

    Level: users do not run what was built.
    """
    if report.error:
        yield NotInspected(sentence=f"it could not be installed: {report.error}")
    for path in report.altered:
        yield Problem(path=path, sentence="the installed file differs from the one in the package")
    for path in report.missing:
        yield Problem(path=path, sentence="in the package, but not installed")


_NO_INIT = "exports no PyInit"  # a loader reports this if it found all symbols
_NEVER = re.compile(
    r"Missing parentheses in call|inconsistent use of tabs|null bytes|not valid|"
    r"unindent does not match|unknown encoding|codec can't decode"
)
"""Messages of syntax errors that no later grammar of Python allows."""
_MAY_BE_NEWER = re.compile(
    r"^type\s+\w|^(?:async\s+)?def\s+\w+\s*\[|^class\s+\w+\s*\[|\b[rR]?[fFtT][rR]?['\"]"
    r"|^except\b|^lazy\s|^(?:match|case)\b"
)
"""Lines that look like syntax of Python 3.10 to 3.15."""


@check
def invalid_syntax(compiled: CompiledModules, package: Distribution) -> Iterator[Finding]:
    """A Python file does not compile.

    The interpreter for which the package is installed compiles each file, and runs none. Tests are
    left out, and so are templates whose file names are not module names. A file that only a branch
    imports, and that may be written for a later Python, is not inspected.

    Why: ``import`` ends with a SyntaxError, and pip prints one when it installs the package.
    Fix: correct the file, or leave it out of the package; look for templates, code for Python 2,
    and unresolved merge conflict markers.
    Level: an error if a module that users import always imports the file, or a sound module that no
    branch of another chooses; a warning if only a function or a branch imports it, or nothing does.
    """
    host = compiled.version[1]
    expects_later = any(minor > host for minor in find_promised(package))
    doubtful, unreached = [], []
    for each in compiled.broken:
        if each.newer_than is not None:
            continue
        # it may be for a later Python, as ``_typing_312.py`` in the project whenever
        newer = _MAY_BE_NEWER.search(each.text) and not _NEVER.search(each.reason)
        if expects_later and newer and not each.reached_from:
            doubtful.append(each.path)
            continue
        cause = of_broken_source(package.layout.inside(each.path) or each.path)
        what = f"does not compile: {each.reason}"
        yield _report_broken(each, what, Level.WARNING, cause=cause)
        if not each.reached_from:
            unreached.append(each.path)
    if doubtful:
        yield _count(
            doubtful,
            f"does not compile on Python 3.{host}; it may on a later Python",
            f"files do not compile on Python 3.{host}; they may on a later Python",
            "that the package supports",
        )
    yield from _find_unfollowed(unreached, compiled)
    for lacking in compiled.uncompiled:
        yield NotInspected(path=lacking.path, sentence=lacking.reason)
    if compiled.more_broken:
        yield NotInspected(sentence=f"{compiled.more_broken} more files do not compile")


def _count(paths: Sequence[str], one: str, many: str, end: str) -> NotInspected:
    """Return a finding for the first path, with the number of paths if there are several."""
    stated = f"{len(paths)} {many}" if paths[1:] else one
    return NotInspected(path=paths[0], sentence=f"{stated} {end}")


def _find_unfollowed(paths: Sequence[str], compiled: CompiledModules) -> Iterator[NotInspected]:
    """Report files that an import of the package may load, if not all imports were followed."""
    if paths and compiled.unfollowed:
        yield _count(
            paths,
            "it is not known whether importing the package always imports it:",
            "files: it is not known whether importing the package always imports them:",
            compiled.unfollowed,
        )


def _report_broken(
    broken: BrokenSource, what: str, otherwise: Level, *, cause: str = ""
) -> Problem:
    line = f"line {broken.line} " if broken.line else ""
    fails = f": `import {broken.reached_from}` fails" if broken.reached_from else ""
    level = Level.ERROR if broken.reached_from else otherwise
    return Problem(path=broken.path, sentence=f"{line}{what}{fails}", level=level, cause=cause)


@check
def syntax_newer_than_promised(compiled: CompiledModules) -> Iterator[Finding]:
    """A file that is always imported has syntax that the oldest promised Python does not support.

    Requires-Python and the tags together give the oldest Python. The syntax is recognised as far as
    ``ast.parse`` knows in which version it was added: ``match``, ``except*``, ``with (a, b):``,
    ``:=``, ``def f[T]``, parameters before ``/`` and others. A file that only a branch imports may
    be meant for later Pythons and is not judged.

    Why: installers choose the package for that Python, and the import ends with a SyntaxError.
    Fix: raise Requires-Python, or write it for the oldest Python; test on that one.
    Level: nobody can import the package on that Python.
    """
    newer = [each for each in compiled.broken if each.newer_than is not None]
    for each in newer:
        if each.newer_than is not None and each.reached_from:
            python = f"Python {each.newer_than[0]}.{each.newer_than[1]}"
            what = f"does not compile on {python}, which the package promises: {each.reason}"
            yield _report_broken(each, what, Level.OFF)
    unreached = [each.path for each in newer if not each.reached_from]
    yield from _find_unfollowed(unreached, compiled)


@check
def import_fails(
    report: ImportReport,
    package: Package,
    linkage: Linkage | Package,
    judged: JudgedProjects,
) -> Iterator[Finding]:
    """Importing a package by its top-level name fails.

    Each name is imported in its own process, in an empty folder, with only the package and its
    requirements installed. If this system lacks a library that the platform tag promises, as a
    container may lack libGL.so.1, the package is not blamed.

    A plugin may rely on another import. If the exception asks for it ("import torch first"), or an
    extension module outside of any package lacks a library that a requirement has, the other module
    is imported first, and the import counts. The key ``probes.imports.first`` of the profile names
    modules that every process imports first.

    If the loader refuses a module of another package that this run judges, too, that package alone
    has the fault, and this one is not inspected.

    Why: users hit it in their first line.

    Fix: see the exception; a crash is most often a library that was built for another system. If
    the wheel lacks a module or a file, or no requirement provides it, the report says what to do.

    Level: users cannot import the package.
    """
    required = package.requires_dist if isinstance(package, Distribution) else ()
    extras = find_names_in_extras(required)
    for step in report.steps:
        if step.outcome is Ending.OK or step.finished:
            if step.after:
                yield Note(sentence=f"import {step.name} works only after import {step.after}")
            continue
        if canonicalize_name(step.missing_module.partition(".")[0]) in extras:
            needs = f"import {step.name} needs {step.missing_module}, which only an extra requires"
            yield NotInspected(sentence=needs)
        elif other := find_judged_owner(step, package, judged.names):
            sentence = f"import {step.name} imports {other}, which the loader refuses: see {other}"
            yield NotInspected(sentence=sentence)
        elif lack := find_own_part(step, package) or (
            report.requirements_installed and find_lacking_requirement(step, package)
        ):
            sentence = f"import {step.name} {describe_end(step)}: {lack}"
            cause, facts = name_lack(step, package, lack), (step.name, name_end(step))
            yield Problem(sentence=sentence, facts=facts, cause=cause, fix=find_remedy(lack))
        else:
            sentence = f"import {step.name} {describe_end(step)}"
            yield judge_refusal(step, sentence, linkage, package)
    yield from find_untried(report)
    if report.reservation:
        yield Note(sentence=report.reservation)


@check
def import_exits_badly(report: ImportReport) -> Iterator[Finding]:
    """A process that imported the package does not exit cleanly.

    Why: the crash comes after the work is done, so successful programs report failure; a process
    that never exits blocks anything that waits for it.

    Fix: look for destructors of static objects, ``atexit`` handlers and threads that outlive the
    interpreter.

    Level: programs of users fail or hang after their work.
    """
    for step in report.steps:
        if step.finished:
            yield Problem(
                sentence=f"import {step.name} succeeds, and the process then {describe_end(step)}",
                facts=(step.name, name_end(step)),
            )
    yield from find_unfinished(report.steps)
    yield from find_untried(report)


@check
def import_changes_directory(report: ImportReport) -> Iterator[Finding]:
    """An import changes the working directory.

    Why: afterwards, every relative path in the program means something else.

    Fix: use absolute paths based on ``__file__`` instead of ``os.chdir``.

    Level: programs of users read and write the wrong files.
    """
    for step in report.steps:
        if step.directory_changed:
            yield Problem(
                sentence=f"import {step.name} leaves the process in {step.directory_changed}",
                facts=(step.name,),
            )
    yield from find_unfinished(step for step in report.steps if not step.directory_changed)
    yield from find_untried(report)


@check(level=Level.WARNING)
def loader_complains(report: ImportReport) -> Iterator[Finding]:
    """An import succeeds, but the loader or the C library reports an error during it.

    Why: an error was swallowed: part of the package could not be loaded, a symbol was left
    unbound, or a helper process died.

    Fix: see the reported line. Other lines on stderr do not count: the last is shown as a note.

    Level: the import succeeds; what was reported may be optional.
    """
    for step in report.steps:
        yield from read_stderr(step)
    yield from find_unfinished(report.steps)
    yield from find_untried(report)


@check
def shadowed_import(report: ImportReport, package: Package) -> Iterator[Finding]:
    """The imported file is not the installed one.

    Why: no other result of the import then says anything about this package, and users do not run
    the file that was built.

    Fix: make sure that no requirement installs a module of the same name, and that no import
    rewrites or removes the package's own files.

    Level: users do not run what was built.
    """
    hashes = {package.layout.shorten(member.path): member.sha256 for member in package.members}
    for step in report.steps:
        yield from find_shadowed(step, hashes)
    yield from find_unfinished(report.steps)
    yield from find_untried(report)


@check(level=Level.WARNING)
def version_disagrees(report: ImportReport, package: Package) -> Iterator[Finding]:
    """The ``__version__`` of the module named like the project differs from the project's version.

    A module version without a local label (``+cpu``) matches any label.

    Why: bug reports, pickles and version checks in other packages all use the wrong version.

    Fix: take ``__version__`` from the same source as the build's version.

    Level: the package works; only its version is misreported.
    """
    project = canonicalize_name(package.name)
    own = [step for step in report.steps if canonicalize_name(step.name) == project]
    unfinished = (*find_unfinished(own), *find_untried(report))
    if not unfinished and not any(step.version for step in own):
        raise NotApplicable("no imported module named like the project has a __version__")
    where = "METADATA" if isinstance(package, Distribution) else "the package"
    for step in own:
        if step.version and not _is_same_release(step.version, package.version):
            yield Problem(
                sentence=f"{step.name}.__version__ is {step.version!r}, {where} says "
                f"{package.version!r}",
                facts=(step.name,),
            )
    yield from unfinished


def _is_same_release(stated: str, meant: str) -> bool:
    """Whether both are the same version; a version without a local label matches any label."""
    try:
        mine, theirs = Version(stated), Version(meant)
    except ValueError:  # not a version, or one of thousands of digits
        return stated == meant
    return mine == theirs or (mine.local is None and mine == Version(theirs.public))


@check(level=Level.WARNING)
def gil_enabled_again(report: ImportReport) -> Iterator[Finding]:
    """On a free-threaded interpreter, an import re-enables the GIL.

    Why: from then on, the whole program runs one thread at a time.

    Fix: declare ``Py_mod_gil`` as ``Py_MOD_GIL_NOT_USED`` in each extension module that is ready,
    and ship no free-threaded wheel before all of them are.

    Level: the package works, only not in parallel.
    """
    free_threaded = report.python.endswith(" free-threaded")
    if not free_threaded and all(step.gil_enabled is None for step in report.steps):
        raise NotApplicable(f"{report.python} is not free-threaded")
    for step in report.steps:
        if step.gil_enabled:
            names = find_gil_modules(step.stderr)
            culprit = f" for {', '.join(names)}" if names else ""
            yield Problem(
                sentence=f"import {step.name} re-enables the GIL{culprit}",
                cause=OF_ENABLED_GIL,
                consequence=True,
                facts=(step.name,),
            )
    yield from find_unfinished(step for step in report.steps if not step.gil_enabled)
    yield from find_untried(report)


@check
def extension_fails_to_load(  # noqa: PLR0913 - one parameter for each fact
    report: ExtensionReport,
    imports: ImportReport,
    linkage: Linkage | Package,
    package: Package,
    code: CodeNames,
    *,
    must_import: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """An extension module does not load.

    Each module is bound completely (``RTLD_NOW``) and executed. A Python exception from its own
    code counts only if an import of the package loads it, or ``must_import`` names it by path or
    dotted name: many optional modules need packages that are not installed. The libraries of this
    system do not change verdicts: users have a library that the platform tag promises, and a module
    that the package can do without (see missing-library) is a warning. A library without an init
    function, which something opens by its name (see missing-init-function), is only noted.

    Why: the part of the package that needs it fails at its first use.

    Fix: supply a missing library or symbol with auditwheel, delocate or delvewheel; add a missing
    ``PyInit`` function to the module's own source, or correct its name.

    Level: users cannot use that part of the package.
    """
    needed = {path for step in imports.steps for path in step.extensions}
    for step in report.steps:
        if step.outcome is Ending.OK:
            continue
        if _is_for_others(step, package, code):
            path, sentence = (
                package.layout.place(step.name),
                "loads, but is not a module: code opens",
            )
            yield Note(path=path, sentence=f"{sentence} it by its name")
            continue
        named = step.name in must_import or format_module_name(step.name) in must_import
        if not step.name:
            yield Problem(
                sentence=f"a process that loaded all extension modules {describe_end(step)}",
                facts=(name_end(step),),
            )
        elif step.outcome is not Ending.RAISED or step.name in needed or named:
            path = package.layout.place(step.name)
            yield judge_refusal(step, describe_end(step), linkage, package, path=path)
        elif failed := next(chain(find_unfinished(imports.steps), find_untried(imports)), None):
            doubt = "it is not known whether an import of the package loads it"
            sentence = f"{describe_end(step)}; {doubt}: {failed.sentence}"
            yield NotInspected(path=step.name, sentence=sentence)
    for path in report.untried:
        yield NotInspected(
            path=path, sentence="not loaded, because too many other modules crashed or hung"
        )


def _is_for_others(step: Step, package: Package, code: CodeNames) -> bool:
    """Whether a library that lacks only an init function is meant to be opened, not imported.

    memray injects _inject.abi3.so into other processes.
    """
    if step.outcome is not Ending.LOADER_ERROR or not step.detail.startswith(_NO_INIT):
        return False
    path = package.layout.place(step.name)
    library = next((item for item in package.objects if item.path == path), None)
    return library is not None and not find_init_fault(library, package, code)


# Messages of a clean system's loader that report a fault of the package itself.
#
# The loader loads each object separately. Libraries that Python or the package's own code would
# have loaded before are missing; a fault that follows only from this is not a fault of the package.

_BEFORE = frozenset({Rule.LOADED, Rule.LOADED_FIRST})


@check
def object_does_not_load(
    report: LoadReport, linkage: Linkage | Package, package: Package
) -> Iterator[Finding]:
    """The loader of a clean system refuses an object of the package.

    With ``--binary-place image:REFERENCE`` the image's own loader loads every object with all
    libraries that it needs, and looks up every symbol and version (``LD_TRACE_LOADED_OBJECTS``, as
    ``ldd -r`` does). Nothing of the package runs for that, and no Python is needed. Symbols of the
    interpreter, and of libraries that its imports have loaded before, do not count.

    Why: on such a system an import fails, although it works where the package was built.

    Fix: build on the oldest system that the tag promises, and repair the wheel there.

    Level: users of such systems cannot use the package. It is a warning if no import reaches the
    object (see missing-library).
    """
    simulated = linkage if isinstance(linkage, Linkage) else None
    code = simulated.loading_code if simulated else ""
    own_code = f"the package's own code may load it first ({code})" if code else ""
    tried = _Tried(report=report, linkage=simulated, package=package, own_code=own_code)
    for fault in report.faults:
        if fault.kind is LoadFaultKind.LIBRARY:
            yield from _judge_library(fault, tried)
        elif fault.kind is LoadFaultKind.VERSION:
            lacks = f"{fault.provider} of that system does not define {fault.version}"
            cause = of_other_version(fault.provider)
            yield _fail(fault, f"{lacks}, which it needs", cause, tried)
        elif fault.kind is LoadFaultKind.REFUSED:
            yield _fail(fault, fault.detail, "", tried)
    yield from _judge_symbols(tried)
    if report.loaded:
        counted = f"{len(report.loaded):,} objects were" if report.loaded[1:] else "1 object was"
        yield Note(sentence=f"{counted} loaded on {report.system}, each with everything it needs")
    if report.reservation:
        yield Note(sentence=report.reservation)
    for path, why in report.untried:
        yield NotInspected(path=path, sentence=f"not loaded on {report.system}: {why}")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tried:
    """The loaded objects, and the facts about the package."""

    report: LoadReport
    linkage: Linkage | None  # None if the loader is not simulated
    package: Package
    own_code: str  # how the package's own code may load a missing library before; "" if it cannot


def _fail(
    fault: LoadFault, why: str, cause: str, tried: _Tried, edge: Edge | None = None
) -> Finding:
    problem = Problem(
        path=fault.path,
        sentence=f"does not load on {tried.report.system}: {why}",
        facts=tuple(filter(None, (fault.name, fault.provider, fault.version))),
        cause=cause,
        consequence=bool(cause),
    )
    return downgrade(problem, tried.linkage or tried.package, edge)


def _judge_library(fault: LoadFault, tried: _Tried) -> Iterator[Finding]:
    name, linkage = fault.name, tried.linkage
    edges = linkage.edges_of(fault.path, tried.report.architecture) if linkage else ()
    edge = next((each for each in edges if each.needed.rpartition("/")[2] == name), None)
    resolved = edge.resolved if edge else None
    before = edge and (edge.rule in _BEFORE or edge.weak or edge.proven)
    if before or (resolved or "").startswith("python:"):
        return
    why = ""
    promised = edge is None and is_promised(name, tried.package.claims)
    if promised or (resolved or "").startswith("system:"):
        why = f"it lacks {name}, which the platform tag promises"
    elif edge and resolved is None and (edge.may_come_with or edge.unknown):
        # The object's own search does not find the library there, but importing that package first
        # loads it.
        why = f"{name} may come with {name_first(edge.may_come_with) or edge.unknown}"
    if why:
        yield NotInspected(path=fault.path, sentence=f"not loaded on {tried.report.system}: {why}")
        return
    cause = of_library(name)
    if edge and linkage:
        cause = of_need(edge, partial(directories, tried.package), linkage.layout)
    finding = _fail(fault, f"{name} is not found there", cause, tried, edge)
    if edge and edge.elsewhere:
        finding = soften(finding, tried.own_code)
    needed = any(each.name == name for item in tried.package.objects for each in item.needed)
    if linkage and edge is None and not needed:
        finding = soften(finding, "libraries of its requirements need it")
    yield finding


def _judge_symbols(tried: _Tried) -> Iterator[Finding]:
    versions = {
        (fault.path, fault.version)
        for fault in tried.report.faults
        if fault.kind is LoadFaultKind.VERSION
    }
    incomplete = {
        fault.root for fault in tried.report.faults if fault.kind is LoadFaultKind.LIBRARY
    }
    groups: dict[tuple[str, str], list[LoadFault]] = {}
    for fault in tried.report.faults:
        explained = (fault.path, fault.version) in versions or fault.root in incomplete
        if fault.kind is LoadFaultKind.SYMBOL and not explained:
            groups.setdefault((fault.path, fault.root), []).append(fault)
    for faults in groups.values():
        yield from _judge_group(faults, tried)


def _judge_group(faults: list[LoadFault], tried: _Tried) -> Iterator[Finding]:
    """Judge missing symbols of one object, loaded through another object or on its own."""
    path, root, linkage = faults[0].path, faults[0].root, tried.linkage
    objects = {item.path: item for item in reversed(tried.package.objects)}
    names = frozenset(fault.name for fault in faults)
    if path in objects:
        names -= find_python_symbols(objects[path], names).anywhere
    # symbols that the simulation does not find either
    lacking = [each for each in linkage.unresolved if each.path == path] if linkage else []
    unresolved = frozenset(each.name for each in lacking if not each.elsewhere)
    if root not in objects or not is_extension(objects[root]):
        if doubtful := names - unresolved:  # its importer may have loaded a library before
            shown = name_first(sorted(doubtful))
            why = f"only libraries loaded before it may define {shown}"
            sentence = f"not loaded on {tried.report.system}: {why}"
            yield NotInspected(path=path, sentence=sentence)
        names &= unresolved
    if not names:
        return
    count = f"{len(names):,} symbols" if len(names) > 1 else "a symbol"
    shown = name_first(sorted(names))
    why = f"no library that it loads there defines {count} ({shown})"
    first = replace(faults[0], name=min(names))
    items = [each for each in lacking if each.name in names]
    cause = of_symbols(items, linkage) if items and linkage else ""
    finding = _fail(first, why, cause, tried)
    # libraries of requirements, loaded with RTLD_GLOBAL, may define the symbols
    if linkage and linkage.loads_everywhere and (linkage.requirements or not names & unresolved):
        finding = soften(finding, tried.own_code)
    yield finding


@check
def image_newer_than_tag(report: LoadReport, package: Package) -> Iterator[Finding]:
    """The image on which a package was loaded is newer than the oldest system that it promises.

    This is never a problem: systems older than the image were not inspected.

    Why: what works there may still fail for users of the oldest system that the tag promises.

    Fix: name an image with the tag's own C library, or rely on the checks of symbols, which know
    what each policy allows.

    Level: the package has no known fault; older systems were not tried.
    """
    libc, _, text = report.libc.partition(" ")
    version = read_numbers(text)
    promised = [
        claim
        for claim in package.claims.systems
        if claim.libc == libc and claim.minimum and report.architecture in claim.architectures
    ]
    if not promised:
        raise NotApplicable(f"the package promises no version of {libc or 'a C library'}")
    oldest = min(promised, key=lambda claim: claim.minimum or ())
    if (oldest.minimum or ()) < version:
        name = oldest.name.removesuffix(f"_{report.architecture}")
        yield NotInspected(sentence=f"{name} on {report.libc}: not inspected below {text}")


@check(level=Level.WARNING)
def loaded_libraries_differ(
    report: ExtensionReport, linkage: Linkage, package: Package
) -> Iterator[Finding]:
    """A process loads a library of this system instead of the package's own copy.

    It is only noted if a library that users may lack is found on this system, or if the process
    differs in another way from our simulation of its loader (see simulation-differs).

    Why: the package was tested with its own copy, and every system has another version of the
    library.

    Fix: give the named object a search path to the package's copy
    (``-Wl,-rpath,'$ORIGIN/...'``), and give that copy a name of its own, as ``auditwheel repair``
    does.

    Level: the package works here, but not with the library that it was built with.
    """
    yield from compare_report(report, linkage, {item.path for item in package.objects})
