"""Faults that show when a package is installed, imported and loaded in a clean environment."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.utils import canonicalize_name
from packaging.version import Version

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.loaded_libraries import compare_report
from binary_checks.model import (
    Ending,
    ExtensionReport,
    Finding,
    ImportReport,
    InstalledPackage,
    InstallReport,
    Linkage,
    NotInspected,
    Problem,
    Wheel,
)
from binary_checks.model.requires_dist import find_names_in_extras
from binary_checks.wording.step_texts import (
    describe_end,
    find_gil_modules,
    find_stranger,
    find_unfinished,
    read_stderr,
    spell_dotted,
)


@check
def installation_fails(report: InstallReport) -> Iterator[str]:
    """The package cannot be installed into a fresh environment.

    Why: nobody gets any further.

    Fix: what the installer says; most often metadata that it cannot read, or requirements that
    contradict each other or exist nowhere.
    """
    if report.error:
        yield f"{report.installer} refuses it: {report.error}"


@check
def unrecorded_files(report: InstallReport) -> Iterator[Finding]:
    """Installation leaves files that the wheel's RECORD does not name.

    Why: nothing vouches for what is in them, and some installers leave them behind for ever when
    the package is removed.

    Fix: build the wheel again instead of adding files to it, or rewrite RECORD with
    ``wheel unpack`` and ``wheel pack``.
    """
    if report.error:
        yield NotInspected(sentence=f"it could not be installed: {report.error}")
    for path in report.unrecorded:
        yield Problem(path=path, sentence="installed, but RECORD does not name it")


@check
def installed_files_differ(report: InstallReport) -> Iterator[Finding]:
    """A file lies installed with other contents than in the wheel, or not at all.

    Why: what users run is not what was built: two entries of the archive land at one place, or a
    requirement brings a file of the same name.

    Fix: let one package own each file.
    """
    if report.error:
        yield NotInspected(sentence=f"it could not be installed: {report.error}")
    for path in report.altered:
        yield Problem(path=path, sentence="installed with other contents than in the wheel")
    for path in report.missing:
        yield Problem(path=path, sentence="in the wheel, but not installed")


@check
def import_fails(report: ImportReport, package: Wheel | InstalledPackage) -> Iterator[Finding]:
    """An import of a package by its top-level name does not succeed.

    Each name is imported in a process of its own, in an empty folder, with nothing but the
    package's requirements installed.

    Why: users meet it in their first line.

    Fix: what the exception says. A module that is not found is a missing entry of
    ``Requires-Dist``; a crash most often a library that was built for another system.
    """
    extras = find_names_in_extras(package.requires_dist)
    for step in report.steps:
        if step.outcome is Ending.OK or step.finished:
            continue
        if canonicalize_name(step.missing_module.partition(".")[0]) in extras:
            needs = f"import {step.name} needs {step.missing_module}, which only an extra requires"
            yield NotInspected(sentence=needs)
        else:
            yield f"import {step.name} {describe_end(step)}"


@check
def import_exits_badly(report: ImportReport) -> Iterator[Finding]:
    """A process that imported the package does not end as it should.

    Why: the crash comes after the work is done, so programs report failure for what succeeded;
    a process that never ends blocks whoever waits for it.

    Fix: look for destructors of static objects, ``atexit`` handlers and threads that outlive the
    interpreter.
    """
    for step in report.steps:
        if step.finished:
            yield f"import {step.name} succeeds, and the process then {describe_end(step)}"
    yield from find_unfinished(report.steps)


@check
def import_changes_directory(report: ImportReport) -> Iterator[Finding]:
    """An import changes the working directory.

    Why: every relative path of the program means something else afterwards.

    Fix: use absolute paths below ``__file__`` instead of ``os.chdir``.
    """
    for step in report.steps:
        if step.directory_changed:
            yield f"import {step.name} leaves the process in {step.directory_changed}"
    yield from find_unfinished(step for step in report.steps if not step.directory_changed)


@check
def loader_complains(report: ImportReport) -> Iterator[Finding]:
    """An import succeeds, but the loader or the C library reports an error meanwhile.

    Why: something was swallowed: a part of the package that could not be loaded, a symbol that was
    bound to nothing, a helper process that died.

    Fix: what the line says. Other lines on stderr do not count: the last one is shown as a note.
    """
    for step in report.steps:
        yield from read_stderr(step)
    yield from find_unfinished(report.steps)


@check
def shadowed_import(report: ImportReport, package: Wheel | InstalledPackage) -> Iterator[Finding]:
    """What is imported is not the file that was installed.

    Why: then nothing else that was seen of the import says anything about this package, and users
    run a file that nobody built.

    Fix: let no requirement install a module of the same name, and let no import rewrite or
    remove the package's own files.
    """
    hashes = {package.layout.shorten(member.path): member.sha256 for member in package.members}
    for step in report.steps:
        yield from find_stranger(step, hashes)
    yield from find_unfinished(report.steps)


@check
def version_disagrees(report: ImportReport, package: Wheel | InstalledPackage) -> Iterator[Finding]:
    """The ``__version__`` of the module that is named like the project is not the project's.

    A module without a local label (``+cpu``) agrees with any.

    Why: bug reports, pickles and version tests of other packages all go by the wrong one.

    Fix: take ``__version__`` from the place where the build takes the version from.
    """
    project = canonicalize_name(package.name)
    own = [step for step in report.steps if canonicalize_name(step.name) == project]
    unfinished = tuple(find_unfinished(own))
    if not unfinished and not any(step.version for step in own):
        raise NotApplicable("no imported module of the project's name has a __version__")
    for step in own:
        if step.version and not _is_same_release(step.version, package.version):
            yield f"{step.name}.__version__ is {step.version!r}, METADATA says {package.version!r}"
    yield from unfinished


def _is_same_release(said: str, meant: str) -> bool:
    """Compare as versions; what has no local label agrees with any (``1.0`` with ``1.0+cpu``)."""
    try:
        mine, theirs = Version(said), Version(meant)
    except ValueError:  # none, or one of thousands of digits
        return said == meant
    return mine == theirs or (mine.local is None and mine == Version(theirs.public))


@check
def gil_enabled_again(report: ImportReport) -> Iterator[Finding]:
    """On a free-threaded interpreter, an import brings the GIL back.

    Why: the whole program runs one thread at a time from then on.

    Fix: declare ``Py_mod_gil`` as ``Py_MOD_GIL_NOT_USED`` in each extension module that is ready,
    and ship no free-threaded wheel before all of them are.
    """
    free_threaded = report.python.endswith(" free-threaded")
    if not free_threaded and all(step.gil_enabled is None for step in report.steps):
        raise NotApplicable(f"{report.python} is not free-threaded")
    for step in report.steps:
        if step.gil_enabled:
            names = find_gil_modules(step.stderr)
            culprit = f" for {', '.join(names)}" if names else ""
            yield f"import {step.name} enables the GIL again{culprit}"
    yield from find_unfinished(step for step in report.steps if not step.gil_enabled)


@check
def extension_fails_to_load(
    report: ExtensionReport, imports: ImportReport, *, must_import: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """An extension module does not load.

    Every one is bound completely (``RTLD_NOW``) and run. That its own code raises a Python
    exception counts only where an import of the package loads it, or ``must_import`` names it
    by path or dotted name: many optional modules want what is not installed.

    Why: the part of the package that needs it fails at its first use.

    Fix: a missing library or symbol is one for auditwheel, delocate or delvewheel; a missing
    ``PyInit`` function is one for the module's own source, or its name.
    """
    needed = {path for step in imports.steps for path in step.extensions}
    for step in report.steps:
        if step.outcome is Ending.OK:
            continue
        named = step.name in must_import or spell_dotted(step.name) in must_import
        if not step.name:
            yield f"a process that loaded all extension modules {describe_end(step)}"
        elif step.outcome is not Ending.RAISED or step.name in needed or named:
            yield Problem(path=step.name, sentence=describe_end(step))
        elif failed := next(find_unfinished(imports.steps), None):
            sentence = f"{describe_end(step)}; whether that counts is open: {failed.sentence}"
            yield NotInspected(path=step.name, sentence=sentence)
    for path in report.untried:
        yield NotInspected(
            path=path, sentence="not loaded, because too many others crashed or hung"
        )


@check
def loaded_libraries_differ(
    report: ExtensionReport, linkage: Linkage, wheel: Wheel
) -> Iterator[Finding]:
    """A process has loaded other libraries than the simulated loader names.

    Why: either the package finds its libraries by an accident of this system, or the simulation is
    wrong and so is every verdict that rests on it.

    Fix: look at the search paths of the object that is named; where they are right, report a bug
    of binary_checks.
    """
    yield from compare_report(report, linkage, {item.path for item in wheel.objects})
