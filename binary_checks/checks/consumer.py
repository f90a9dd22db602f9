"""Whether users can build C++ programs against the archive, link and run them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    BuildStep,
    ConsumerReport,
    ConsumerUnit,
    CppArchive,
    Ending,
    Finding,
    Level,
    Note,
    NotInspected,
    OtherAbi,
    Problem,
    Stage,
    is_open_to_all,
)
from binary_checks.wording.sentences import name_first

_STAGES = tuple(Stage)
_OWN = ("$PREFIX", "$BUILD", "$ORIGIN", "${ORIGIN}")
# Messages of linkers, loaders and CMake about a library that does not exist.
_NOWHERE = re.compile(
    r"(?P<needed>\S+), needed by \S+, not found|cannot find -?-?l(?P<library>[\w.+:-]+)"
    r"|loading shared libraries: (?P<loaded>[^:\s]+): cannot open"
    r'|package configuration file provided by "(?P<package>[^"]+)"'
    r"|Package '(?P<module>[^']+)', required by '[^']+', not found"
    r"|(?i:could not|failed to|unable to|cannot) (?i:find|detect|locate) "
    r"(?!requested file: \S*/)(?:requested file: )?"
    r"(?!-|(?:a|an|any|the|file|cmake|requested)\b)['\"]?(?P<other>[\w.+-]+)"
)
_OF_PYTHON = re.compile(r"_?Py[A-Z_]")
_NEWER = re.compile(r"(?:@|version [`'])(?P<version>(?:GLIBC|GLIBCXX|CXXABI|GCC)_[\w.]+)")
"""Matches a symbol version of a newer C or C++ runtime than this host's."""


@check
def consumer_configuration_fails(report: ConsumerReport, package: CppArchive) -> Iterator[Finding]:
    """CMake's ``find_package`` does not find the archive's package, or ends with an error.

    The archive is unpacked and moved to another folder, which only ``CMAKE_PREFIX_PATH`` names.
    CMake then configures a small example for each of the archive's packages, and the units of the
    profile's table ``[probes.consumer]``. The archive's pkg-config files are queried, too. A unit
    that needs a library which this host lacks is not inspected, in this check and the next ones,
    unless the archive's name says that it comes with its dependencies; nor is a unit that needs a
    newer C or C++ runtime.

    Why: nobody who builds with CMake can use the package.

    Fix: see the message. If an exported target refers to a file that is not in the archive, the
    file was usually left out of the package; an absolute path belongs to the build machine.

    Level: users cannot build anything.
    """
    yield Note(sentence=f"built with {report.tools.describe()}")
    for name, meant in report.elsewhere:
        yield Note(sentence=f"{name} is for {meant} only")
    for unit in report.units:
        if unit.untried:
            yield NotInspected(sentence=f"{unit.name}: {unit.untried}")
    verbs = ("is not configured", "are not configured")
    yield from _report_failures(report, Stage.CONFIGURE, verbs, package)


@check
def consumer_compilation_fails(report: ConsumerReport) -> Iterator[Finding]:
    """A program that uses the archive's headers does not compile.

    Every program is built by CMake, and then by the compiler alone with CMake's flags.

    Why: users cannot use the part of the package that the header is for.

    Fix: see the compiler's first error. A header that is not found was left out of the archive, or
    belongs to a dependency that users must have, too.

    Level: users cannot compile their programs.
    """
    yield from _find_earlier(report, Stage.COMPILE)
    yield from _report_failures(report, Stage.COMPILE, ("does not compile", "do not compile"))


@check
def consumer_linking_fails(report: ConsumerReport, package: CppArchive) -> Iterator[Finding]:
    """A program does not link with the archive's libraries.

    Why: users cannot use the part of the package that the symbol is for.

    Fix: see the linker's first error. A symbol that is not found is one that the headers declare
    and no library exports: built with another C++ ABI, hidden, or left out.

    Level: users cannot build their programs.
    """
    yield from _find_earlier(report, Stage.LINK)
    yield from _report_failures(report, Stage.LINK, ("does not link", "do not link"), package)


@check
def consumer_run_fails(report: ConsumerReport, package: CppArchive) -> Iterator[Finding]:
    """A program that was built against the archive does not run, or prints something else.

    ``prints`` in a unit of the profile's table ``[probes.consumer.units]`` is the text that the
    program must write to standard output. A unit with ``gpu = true`` is always linked, but run only
    if the host has a GPU that can be used.

    Why: users can build their programs but not use them.

    Fix: run the unit's source by hand. If a library is not found at run time, its folder is missing
    from the search path of the library that needs it.

    Level: programs of users do not work.
    """
    yield from _find_earlier(report, Stage.RUN)
    yield from _report_failures(report, Stage.RUN, ("does not run", "do not run"), package)
    for unit in report.units:
        if unit.not_run and unit.builds:
            sentence = f"{unit.name}: linked, but not run: {unit.not_run}"
            yield NotInspected(sentence=sentence, by_host=True)
        for build in unit.builds:
            if not build.links or build.last.outcome is not Ending.OK or unit.expected is None:
                continue
            if build.last.printed != unit.expected.strip():
                yield Problem(
                    sentence=f"{unit.name} ({build.way}) prints {build.last.printed[:500]!r}, "
                    f"where {unit.expected.strip()!r} is expected",
                    facts=(unit.name, build.way),
                )


@check
def consumer_search_path(report: ConsumerReport) -> Iterator[Finding]:
    """The package's CMake files put an absolute directory of another machine into every program.

    The RUNPATH of each program that was built is compared with the archive's own folder, the build
    folder and the directories that the compiler puts into every program.

    Why: users' programs look for their libraries in directories where other libraries may lie, and
    what they find there depends on the machine.

    Fix: leave out ``INTERFACE_LINK_DIRECTORIES`` and ``-rpath`` of directories outside of the
    package from the exported targets.

    Level: anyone who can write to a directory such as /tmp, or to the current directory, runs code
    as the user. A directory that only an administrator can fill is a warning.
    """
    programs = [
        (unit, build) for unit in report.units for build in unit.builds if build.program is not None
    ]
    if not programs:
        yield NotInspected(sentence="no program was built")
    rows: dict[tuple[str, ...], dict[str, None]] = {}
    for unit, build in programs:
        strange = tuple(
            each
            for each in build.search_path
            if each not in report.tools.search_path and each.partition("/")[0] not in _OWN
        )
        if strange:
            rows.setdefault(strange, {})[unit.name] = None
    for strange, names in rows.items():
        yield _accuse(strange, tuple(names))


def _accuse(entries: tuple[str, ...], names: tuple[str, ...]) -> Problem:
    who = f"programs that are built against it ({name_first(names)}) get the search path"
    path = ":".join(entries)
    if any(not entry.startswith("/") or is_open_to_all(entry) for entry in entries):
        danger = "anyone who can write there runs code as the user"
        return Problem(sentence=f"{who} {path}: {danger}", facts=entries)
    sentence = "absolute paths lead users nowhere, or to other libraries"
    return Problem(sentence=f"{who} {path}: {sentence}", facts=entries, level=Level.WARNING)


@check
def other_cxx_abi_links(report: ConsumerReport) -> Iterator[Finding]:
    """A program compiled for the other C++ ABI links, or fails for a reason other than the ABI.

    The units of the profile with ``refuses``, globs on mangled names, are compiled a second time
    for the ABI of libstdc++ that the package does not have (``_GLIBCXX_USE_CXX11_ABI``, in either
    direction). The linker must then miss one of those names.

    Why: a program that links with libraries of the other ABI passes them strings and lists of
    another layout, and crashes or corrupts data; the linker is what keeps users from it.

    Fix: build all objects of the package with one ABI, and export functions that take or return
    ``std::string`` from headers under their own names.

    Level: users get programs that crash, instead of an error of the linker.
    """
    asked = [unit for unit in report.units if unit.refuses]
    if not asked:
        keys = "[probes.consumer.units.NAME] refuses"
        raise NotApplicable(f"the profile names no unit for the other C++ ABI ({keys})")
    for unit in asked:
        if unit.other_abi is None or not all(each.program is not None for each in unit.builds):
            yield NotInspected(sentence=f"{unit.name} does not link with its own ABI either")
        elif unit.other_abi.untried:
            yield NotInspected(sentence=f"{unit.name}: {unit.other_abi.untried}")
        else:
            yield from _judge_other(unit, unit.other_abi)


def _judge_other(unit: ConsumerUnit, other: OtherAbi) -> Iterator[Finding]:
    last, name = other.last, unit.name
    if last.stage is Stage.LINK and last.outcome is Ending.OK:
        yield Problem(
            sentence=f"{name} links although it is compiled for the other C++ ABI ({other.flag})",
            facts=(name, other.flag),
        )
        return
    missed = (name for name in last.undefined for glob in unit.refuses if fnmatchcase(name, glob))
    if last.stage is not Stage.LINK or not any(missed):
        how = f"compiled for the other C++ ABI ({other.flag}), {name} fails, but not because"
        wanted = " or ".join(unit.refuses)
        yield Problem(
            sentence=f"{how} {wanted} is not found: {_describe(last)}",
            facts=(name, other.flag, last.stage.value),
        )


@check
def reached_target_absent(report: ConsumerReport) -> Iterator[Finding]:
    """``find_package`` makes a target for a library that is not there.

    Why: linking with that target ends with an error of the linker or the build tool, and nothing
    warns of it before.

    Fix: ship the file, or do not export the target.

    Level: users of that target cannot build their programs.
    """
    seen = set()
    for unit in report.units:
        for target in unit.targets:
            if target.is_absent and target not in seen:
                seen.add(target)
                made = f"find_package({unit.package}) defines the target {target.name} for it"
                yield Problem(
                    path=target.file, sentence=f"not there, and {made}", facts=(target.name,)
                )
    tried = [unit for unit in report.units if unit.package]
    if not tried:
        raise NotApplicable("it has no CMake package")
    if broken := [unit.name for unit in tried if not _has_succeeded(unit)]:
        yield NotInspected(sentence=f"{name_first(broken)}: CMake did not finish")


def _has_succeeded(unit: ConsumerUnit) -> bool:
    return unit.configured is not None and unit.configured.outcome is Ending.OK


def _list_steps(report: ConsumerReport) -> Iterator[tuple[ConsumerUnit, str, BuildStep]]:
    """Yield the last step of each build of each unit, with the unit and the way it was built."""
    for unit in report.units:
        if unit.configured is not None and not _has_succeeded(unit):
            yield unit, "", unit.configured
        for build in unit.builds:
            yield unit, build.way, build.last


def _report_failures(
    report: ConsumerReport,
    stage: Stage,
    verbs: tuple[str, str],
    package: CppArchive | None = None,
) -> Iterator[Finding]:
    """Yield one problem for each message, however many units it stopped."""
    rows: dict[str, list[tuple[ConsumerUnit, str, BuildStep]]] = {}
    for unit, way, step in _list_steps(report):
        if step.stage is stage and step.outcome is not Ending.OK:
            rows.setdefault(_describe(step), []).append((unit, way, step))
    for message, stopped in rows.items():
        names = tuple(dict.fromkeys(_name(unit, way, stopped) for unit, way, _ in stopped))
        who = f"{name_first(names)} {verbs[len(names) > 1]}"
        if lacking := _find_lacking(message, stopped[0][2], package):
            yield NotInspected(sentence=f"{who}: {lacking}")
        else:
            yield Problem(sentence=f"{who}: {message}", facts=(names[0],))


def _name(unit: ConsumerUnit, way: str, stopped: list[tuple[ConsumerUnit, str, BuildStep]]) -> str:
    """Return the unit's name, with the way in which it was built if another way succeeded."""
    ways = [build.way for build in unit.builds]
    alone = way and sum(other is unit for other, *_ in stopped) < len(ways)
    return f"{unit.name} ({way})" if alone else unit.name


def _find_lacking(message: str, step: BuildStep, package: CppArchive | None) -> str:
    """Return what this host lacks, unless the archive promises to have it."""
    if package is None:
        return ""
    if step.undefined and all(map(_OF_PYTHON.match, step.undefined)):
        return f"{step.undefined[0]} is a symbol of Python, which only an extension module finds"
    if newer := _NEWER.search(message):
        return f"{newer['version']} is newer than what this host has"
    found = _NOWHERE.search(message)
    if package.stated.with_deps or found is None:
        return ""
    name = next(filter(None, found.groups()), "")
    own = {member.path.rpartition("/")[2] for member in package.members}
    own |= {each.name for each in package.cmake_packages}
    if own & {name, f"lib{name}.so", f"lib{name}.a"}:
        return ""
    return f"the archive comes without {name}, and this host has none"


def _find_earlier(report: ConsumerReport, stage: Stage) -> Iterator[NotInspected]:
    """Report the units whose build stopped before that stage as not inspected."""
    later = _STAGES.index(stage)
    stopped = [
        unit.name
        for unit, _, step in _list_steps(report)
        if _STAGES.index(step.stage) < later and step.outcome is not Ending.OK
    ]
    stopped += [unit.name for unit in report.units if unit.untried]
    if names := tuple(dict.fromkeys(stopped)):
        yield NotInspected(sentence=f"{name_first(names)}: the build ended before this step")


def _describe(step: BuildStep) -> str:
    """Return how a step ended, as the end of a sentence."""
    how = {
        Ending.CRASHED: f"it crashes: {step.detail}",
        Ending.HUNG: f"it does not end within {step.detail}",
        Ending.STOPPED: f"it is stopped: {step.detail}",
    }.get(step.outcome, "")
    if step.outcome is Ending.EXITED:
        return step.message or f"it ends with {step.detail}"
    return f"{how} ({step.message})" if step.message and how else how or step.message
