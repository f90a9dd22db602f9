"""Whether a package matches its project's expectations: libraries, paths, snippets, releases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from fnmatch import fnmatchcase, translate

from binary_checks.declaring import Pattern, check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.configurations import development_number, judge_age, read_day
from binary_checks.knowledge.gaps import find_unread
from binary_checks.model import (
    ElfFile,
    Ending,
    Finding,
    Format,
    Kind,
    MachOFile,
    Note,
    NotInspected,
    Package,
    PeFile,
    Problem,
    SnippetReport,
    SnippetRequest,
    SnippetRun,
    Wheel,
)
from binary_checks.wording.problem_lines import name_end
from binary_checks.wording.sentences import describe_end, name_first

# Whether a package ships, needs and exports the expected libraries and symbols.


@check(enabled=False)
def banned_library(package: Package, *, banned: tuple[str, ...] = ()) -> Iterator[Finding]:
    """A package ships or needs a library that the profile bans.

    ``banned`` are globs on the file name of a library that it ships or needs, ignoring case:
    ``*openblas*.dylib`` is OpenBLAS on macOS only.

    Why: the project has chosen another library; with two of a kind, one process is slower, gets
    other results, or breaks.
    Fix: check which library the build found (CMake's cache), and disable the search for it.
    Level: the project itself bans it.
    """
    if not banned:
        yield NotInspected(sentence="no library is banned: the option banned is empty")
        return
    yield from find_unread(package, found=bool(package.objects), absent="no object file")
    for item in package.objects:
        for name in dict.fromkeys((item.file_name, _base(item.name))):
            if name and (glob := _find_glob(name, banned)):
                yield Problem(
                    path=item.path, sentence=f"is {name}: the profile bans {glob}", facts=(name,)
                )
        for need in item.needed:
            if glob := _find_glob(_base(need.name), banned):
                yield Problem(
                    path=item.path,
                    sentence=f"needs {need.name}: the profile bans {glob}",
                    facts=(need.name,),
                )


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _find_glob(name: str, globs: Iterable[str]) -> str:
    return next((glob for glob in globs if fnmatchcase(name.lower(), glob.lower())), "")


@check(enabled=False)
def banned_export(
    library: ElfFile | MachOFile | PeFile, *, banned: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """A library exports symbols that the profile bans.

    ``banned`` are globs on the names as the file has them: ``_ZNSt10filesystem*`` are functions of
    std::filesystem that some compilers of older systems link statically.

    Why: other libraries in the process use these symbols instead of their own, of another version.
    Fix: link with a version script or ``-Wl,--exclude-libs,ALL``, which hide statically linked
    symbols.
    Level: the project itself bans it.
    """
    if not banned:
        yield NotInspected(sentence="no symbol is banned: the option banned is empty")
        return
    pattern = re.compile("|".join(map(translate, banned)))
    names = sorted(name for name in library.exports.names if pattern.match(name))
    if names:
        yield f"exports {len(names)} symbols that the profile bans: {name_first(names)}"


@check(enabled=False)
def absent_library(
    package: Package, *, required: Mapping[str, tuple[str, ...]] = {}
) -> Iterator[Finding]:
    """A package does not ship a required library, or ships it more than once.

    ``required`` gives globs on paths for each format, ``ELF``, ``Mach-O`` or ``PE``; exactly one
    file must match each glob.

    Why: without it the user's own copy is loaded, if there is one; with two, one process loads
    both.
    Fix: bundle it once, where the package's other libraries look for it, and do not exclude it in
    the repair tool.
    Level: the project itself requires it.
    """
    if not any(required.values()):
        yield NotInspected(sentence="no library is required: the option required is empty")
        return
    shown = package.layout.shorten
    loaded = [item for item in package.objects if item.kind is Kind.SHARED]
    there = {item.format for item in loaded}
    if unknown := required.keys() - {"ELF", "Mach-O", "PE"}:
        yield NotInspected(
            sentence=f"the option required has no format {name_first(sorted(unknown))}"
        )
    yield from find_unread(package, found=bool(loaded), absent="no library")
    if not there & required.keys():
        raise NotApplicable(f"nothing is required of {' and '.join(sorted(there)) or 'these'}")
    for form in sorted(there & required.keys()):
        for glob in required[form]:
            paths = {shown(item.path) for item in loaded if item.format == form}
            yield from _judge_required(glob, paths)


def _judge_required(glob: str, shown: Iterable[str]) -> Iterator[Problem]:
    paths = sorted(path for path in shown if fnmatchcase(path, glob))
    if not paths:
        yield Problem(
            sentence=f"ships no {glob}: the user's own is loaded, if there is one", facts=(glob,)
        )
    for path in paths[1:]:
        yield Problem(path=path, sentence=f"is a second {glob}, after {paths[0]}", facts=(glob,))


# Whether objects have exactly the search paths that the profile expects.


@check(enabled=False)
def unexpected_search_path(
    package: Package, *, expected: Mapping[str, tuple[str, ...]] = {}
) -> Iterator[Finding]:
    """An object's search path is not the one that the profile expects, entry by entry.

    ``expected`` lists the allowed search paths for a glob on paths, each as one string with its
    kind: ``RUNPATH $ORIGIN:$ORIGIN/lib``, ``RPATH $ORIGIN``, for Mach-O ``LC_RPATH @loader_path``,
    and "" for none; ``*`` matches anything. The first glob that matches the path decides; an object
    that none matches is not judged.

    Why: order and kind decide whose library is loaded: RUNPATH is searched after the user's
    LD_LIBRARY_PATH, RPATH before it, and a directory listed too early hides the right one.
    Fix: set the whole list in one place of the build (``patchelf --set-rpath``, with
    ``--force-rpath`` for RPATH; CMake's ``INSTALL_RPATH``).
    Level: the project itself says what it must be.
    """
    if not expected:
        yield NotInspected(sentence="no expected search path is set (the option expected)")
        return
    searching = [item for item in package.objects if isinstance(item, (ElfFile, MachOFile))]
    shown = package.layout.shorten
    judged = [(item, found) for item in searching if (found := _find(shown(item.path), expected))]
    yield from find_unread(
        package,
        found=bool(searching),
        absent="no object in a format that has search paths",
        formats=(Format.ELF, Format.MACHO),
        concerns=lambda path: _find(shown(path), expected),
    )
    if searching and not judged:
        yield NotInspected(sentence=f"no object matches {' or '.join(expected)}")
    for item, wanted in judged:
        actual = format_search_path(item)
        if not any(fnmatchcase(actual, each) for each in wanted):
            has = f"has {actual}" if actual else "has no search path"
            expects = " or ".join(each or "no search path" for each in wanted)
            yield Problem(path=item.path, sentence=f"{has}, where {expects} is expected")


def _find(path: str, expected: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return what the first matching glob expects; () if none matches."""
    return next((wanted for glob, wanted in expected.items() if fnmatchcase(path, glob)), ())


def format_search_path(library: ElfFile | MachOFile) -> str:
    """Return the search path with its kind, as profiles spell it; DT_RUNPATH overrides DT_RPATH."""
    if isinstance(library, MachOFile):
        return f"LC_RPATH {':'.join(library.rpaths)}" if library.rpaths else ""
    if library.runpath:
        return f"RUNPATH {':'.join(library.runpath)}"
    return f"RPATH {':'.join(library.rpath)}" if library.rpath else ""


# Whether the profile's own Python snippets succeed with the installed package.


@check(enabled=False)
def snippet_fails(
    report: SnippetReport, asked: SnippetRequest, *, prints: Mapping[str, str] = {}
) -> Iterator[Finding]:
    """A Python snippet of the profile fails, or prints something unexpected.

    ``code`` in the profile's table ``[probes.snippets]`` has programs by name. Each runs in a fresh
    process in an empty folder, with the package installed; it fails if it raises, exits with a
    status other than 0, crashes, exceeds the profile's ``timeout``, ends its process badly, or
    writes to ``sys.stdout`` anything but the text of the option ``prints``. It may call
    ``unavailable("why")`` if something that it needs is missing: it is then not inspected. ``only``
    in that table limits snippets to some systems, as globs on ``linux-x86_64``, ``macos-aarch64``,
    ``windows-x86_64``. ``requires`` lists requirements in addition to the package's: if there are
    any, the snippets run in a separate environment; for an installed package, they use the
    distributions that are installed with it. ``long`` names snippets that run only with
    ``--binary-thorough`` or ``thorough = true``, each with further requirements
    (``torchvision = ["torchvision"]``, or ``[]``), which get another environment. A profile that
    extends another one removes a snippet by setting its code to "".

    Why: a build that lost its BLAS, its threads or its version imports like a good one.
    Fix: run the quoted line where the package is installed; the build's configuration says what was
    found and what was not.
    Level: the project itself says what must work.
    """
    if unknown := sorted(
        (prints.keys() | asked.only.keys() | asked.long.keys()) - asked.code.keys()
    ):
        yield NotInspected(sentence=f"the profile has no snippet {name_first(unknown)}")
    if not (report.runs or report.elsewhere or report.long or report.untried):
        yield NotInspected(sentence="the profile has no snippet: [probes.snippets] code is empty")
    elif not (report.runs or report.untried):
        where = "is for a run without --thorough" if report.long else f"is for {report.system}"
        raise NotApplicable(f"no snippet of the profile {where}")
    for each in report.preinstalled:
        yield Note(sentence=f"the snippets run with the {each} that is already installed")
    for name in report.elsewhere:
        yield Note(sentence=f"snippet {name} is for {' and '.join(asked.only.get(name, ()))} only")
    if report.long:
        yield Note(sentence=f"only a thorough run runs the snippets {', '.join(report.long)}")
    for name, reason in report.untried:
        yield NotInspected(sentence=f"snippet {name}: {reason}")
    for run in report.runs:
        yield from _judge(run, prints.get(run.step.name))


def _judge(run: SnippetRun, expected: str | None) -> Iterator[Finding]:
    name, step = run.step.name, run.step
    if run.unavailable:
        yield NotInspected(sentence=f"snippet {name}: {run.unavailable}")
    elif step.outcome is not Ending.OK and not step.finished:
        yield Problem(sentence=f"snippet {name} {describe_end(step)}", facts=(name, name_end(step)))
    elif expected is not None and run.printed != expected.strip():
        wanted = f"where {expected.strip()!r} is expected"
        yield Problem(
            sentence=f"snippet {name} prints {run.printed[:500]!r}, {wanted}",
            facts=(name, "prints"),
        )
    if step.finished:
        yield Problem(
            sentence=f"snippet {name} is done, but its process then {describe_end(step)}",
            facts=(name, name_end(step)),
        )


# Whether a wheel has the expected date, version label and tags.

_ANY_TAG = Pattern("")


@check(enabled=False)
def stale_nightly(package: Wheel, *, days: int = 3) -> Iterator[Finding]:
    """A nightly was built too long ago, by the date in its version.

    The date is ``.devYYYYMMDD``, compared with today in UTC. A nightly that is ``days`` days old
    passes, an older one fails, and so does one dated later than tomorrow. A version without
    ``.dev`` is not a nightly.

    Why: the nightly build has been failing for days, and users and tests get the last build that
    succeeded.
    Fix: find out why newer builds are missing; a date in the future is a wrong clock on a build
    host.
    Level: users and tests get an old build under a new date.
    """
    number = development_number(package.version)
    if number is None:
        raise NotApplicable(f"{package.version} is not a nightly: it has no .dev")
    built, today = read_day(number), datetime.now(timezone.utc).date()
    if built is None:
        yield Problem(sentence=f"its version is {package.version}: .dev{number} is not a date")
    elif sentence := judge_age(built, today, days, "built"):
        yield Problem(sentence=sentence)


@check(enabled=False)
def unexpected_version_label(
    package: Wheel, *, expected: Pattern | None = None
) -> Iterator[Finding]:
    """The local label of the version (``+cpu``, ``+cu132``) is not the label of the channel.

    ``expected`` is a regular expression on the whole label; "" means that there must be none.

    Why: an index serves CPU and GPU builds side by side, and only this label tells users and
    installers which is which.
    Fix: set the version for this build's channel, and build again.
    Level: users get the build of another channel.
    """
    label = package.version.partition("+")[2]
    if expected is None:
        yield NotInspected(sentence="no expected label is set (the option expected)")
    elif not re.fullmatch(expected, label):
        has = f"has the label +{label}" if label else "has no label"
        wanted = f"+{expected} is expected" if expected else "none is expected"
        yield Problem(sentence=f"its version {has}, but {wanted}")


@check(enabled=False)
def unexpected_tag(package: Wheel, *, expected: Pattern = _ANY_TAG) -> Iterator[Finding]:
    """A tag of the wheel is not one that the project publishes.

    ``expected`` is a regular expression on a whole tag, such as ``cp312-cp312-win_amd64``; a
    compressed set of tags is judged one by one.

    Why: a ``linux_x86_64`` wheel that was never repaired, a macOS newer than the users', or a build
    with the wrong interpreter installs nowhere, or on systems where it does not run.
    Fix: build with the interpreter and the deployment target of the release, and repair the wheel.
    Level: the wheel is published for a platform that the project does not support.
    """
    if not expected:
        yield NotInspected(sentence="no expected tag is set (the option expected)")
        return
    for tag in sorted(map(str, package.tags)):
        if not re.fullmatch(expected, tag):
            yield Problem(sentence=f"is tagged {tag}, where {expected} is expected", facts=(tag,))
