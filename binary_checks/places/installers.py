"""Installs wheels with uv, or with pip where there is no uv; nothing is built unless allowed."""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email import message_from_bytes
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from binary_checks.errors import GatherError, NoWheelError, Unavailable
from binary_checks.places.foreign_tags import ForeignPython
from binary_checks.places.index_settings import (
    HELD_PIP,
    PIP,
    choose_folder,
    has_pip,
    is_true,
    make_installer_environment,
    read_pip_settings,
    translate_for_uv,
    translate_variables_for_uv,
)
from binary_checks.places.processes import Ended, name_crash, run_process
from binary_checks.places.scripts.held_pip import REFUSED
from binary_checks.withheld import DEAF, user_environment


@dataclass(frozen=True, kw_only=True, slots=True)
class Installer:
    """A program that installs wheels into an environment given by its interpreter."""

    name: str  # "uv 0.13.8"
    command: tuple[str, ...]  # up to and including "install"
    no_index: tuple[str, ...]  # options that shut out all of the user's sources
    has_index: bool = True  # whether the user's own settings leave it one
    log_variable: str = ""  # names the file to which it writes what it asked and left out
    sources: tuple[str, ...] = ()  # options for the user's sources, where it does not read them
    relative: bool = False  # whether settings that it reads may be relative to the user's folder
    variables: Mapping[str, str] = field(default_factory=dict)
    without_sources: Mapping[str, str] = field(default_factory=dict)  # variables beside no_index


def find_installer(python: Path, *, cwd: Path, timeout: float, builds: bool = False) -> Installer:
    """Find uv, else a pip of ours, else put the interpreter's own pip into the environment.

    Without ``builds`` it builds nothing, and follows no requirement by URL that a package has.
    Raises GatherError when there is none of the three.
    """
    environ = make_installer_environment()
    if (binary := find_uv()) is not None:
        version = run_process((binary, "--version"), cwd=cwd, env=environ, timeout=timeout)
        if version.status == 0:
            return _make_uv(binary, version.stdout, python, builds=builds)
    for pip in _find_pips(python, cwd=cwd, timeout=timeout, builds=builds):
        version = run_process((*pip, "--version"), cwd=cwd, env=environ, timeout=timeout)
        if version.status == 0:
            return _make_pip(pip, version.stdout, builds=builds)
    raise GatherError(f"there is neither uv nor a pip that runs on {python}")


def _find_pips(
    python: Path, *, cwd: Path, timeout: float, builds: bool
) -> Iterator[tuple[str, ...]]:
    """Say how ours is called, then the interpreter's own; it is made when it is asked for."""
    start = (str(python), "-I")
    held = (*start, HELD_PIP)
    spec = importlib.util.find_spec("pip")
    if spec is not None and spec.origin is not None:
        yield (*PIP, "--python", str(python)) if builds else (*held, _folder_of(spec.origin))
    done = run_process(
        (*start, "-m", "ensurepip"), cwd=cwd, env=make_installer_environment(), timeout=timeout
    )
    if done.status == 0:
        yield (*start, "-m", "pip") if builds else (*held, "")


def _folder_of(pip: str) -> str:
    return str(Path(pip).parents[1])


def _make_pip(pip: tuple[str, ...], version: str, *, builds: bool) -> Installer:
    options = ("--disable-pip-version-check", "--no-input", "--no-compile")
    wheels_only = () if builds else ("--only-binary", ":all:")
    return Installer(
        name=" ".join(version.split()[:2]) or "pip",
        command=(*pip, "install", *options, *wheels_only),
        no_index=("--no-index",),
        has_index=not is_true(read_pip_settings().get("no-index", "")),
        log_variable="PIP_LOG",  # pips that install what a build needs read it, too
        relative=True,
        without_sources={"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""},
    )


def find_uv() -> str | None:
    """Find uv on PATH, or as the package of that name beside us; never in the current folder."""
    found = shutil.which("uv")  # Windows looks in the current folder first: ".\\uv.EXE"
    if found and Path(found).is_absolute():
        return found
    try:
        return str(importlib.import_module("uv").find_uv_bin())
    except (ImportError, AttributeError, OSError):
        return None


def _make_uv(binary: str, version: str, python: Path, *, builds: bool) -> Installer:
    settings, environ = read_pip_settings(), user_environment()
    sources = translate_for_uv(settings, environ)
    # A hard link would share the file with uv's cache and every other environment.
    options = ("--link-mode", "copy", "--no-progress", "--no-compile-bytecode")
    wheels_only = () if builds else ("--no-build",)
    return Installer(
        name=" ".join(version.split()[:2]),
        command=(binary, "pip", "install", "--python", str(python), *options, *wheels_only),
        no_index=("--no-config", "--no-index"),
        has_index="--no-index" not in sources and not is_true(environ.get("UV_OFFLINE", "")),
        sources=sources,
        variables={
            **translate_variables_for_uv(settings, environ),
            "UV_PYTHON_DOWNLOADS": "never",
        },
        without_sources={"UV_FIND_LINKS": "", "UV_INDEX": "", "UV_EXTRA_INDEX_URL": ""},
    )


def install(
    installer: Installer, requirements: tuple[str, ...], *, index: bool, cwd: Path, timeout: float
) -> str:
    """Install the package, which comes last, with what it requires; "" or why it was refused.

    ``requirements`` may hold options too; without ``index`` nothing else is a source. Raises
    GatherError when a source or the machine broke, Unavailable when something required was not
    among what was given.
    """
    sources = installer.sources if index else installer.no_index
    variables = {**installer.variables, **({} if index else installer.without_sources)}
    with tempfile.TemporaryDirectory(dir=cwd.parent, ignore_cleanup_errors=True) as private:
        log = Path(private, "log")
        if installer.log_variable:
            variables[installer.log_variable] = str(log)
        ended = run_process(
            (*installer.command, *sources, *requirements),
            cwd=choose_folder(cwd) if installer.relative else cwd,
            env={**make_installer_environment(Path(private)), **variables},
            timeout=timeout,
        )
        if ended.status == 0:
            return ""
        if ended.status is None:
            raise GatherError(f"installation took longer than {timeout:g} s")
        if crash := name_crash(ended.status):
            raise GatherError(f"installation broke: {installer.name} was ended by {crash}")
        said = read_log(log)
    return blame(ended.stderr or ended.stdout, index=index and installer.has_index, log=said)


# Turns the wheels that the user gives beside a package into what installers understand.

_LONGEST_METADATA = 16 << 20  # bytes of METADATA


def describe_given(
    paths: Iterable[Path], tags: frozenset[Tag], constraints: Path
) -> tuple[str, ...]:
    """Say each wheel as a requirement, each folder as a source of links.

    A folder that holds one version of a project decides it, even where an index has a newer one:
    that is written into the file ``constraints``. Raises Unavailable for a path that is not there.
    """
    options: list[str] = []
    pins: list[str] = []
    for path in (path.resolve() for path in paths):
        if path.is_dir():
            options += ["--find-links", str(path)]
            pins += pin_versions((item.name for item in sorted(path.glob("*.whl"))), tags)
        elif path.is_file():
            options.append(str(path))
        else:
            raise Unavailable(f"{path.name}: given alongside the package, but missing")
    if pins:
        constraints.write_text("\n".join([*pins, ""]), encoding="utf-8")
        options += ["--constraint", str(constraints)]
    return tuple(options)


def list_requirements(paths: Iterable[Path]) -> Iterator[str]:
    """The Requires-Dist of each wheel that is given as a file, of any extra.

    Those of a folder count for installers like an index's. What cannot be read they refuse.
    """
    for path in paths:
        if path.suffix == ".whl" and path.is_file():
            with contextlib.suppress(OSError, ValueError, zipfile.BadZipFile, RuntimeError):
                yield from _read_requirements(path)


def _read_requirements(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"[^/]+\.dist-info/METADATA", name):
                with archive.open(name) as file:
                    headers = message_from_bytes(file.read(_LONGEST_METADATA)).get_all(
                        "Requires-Dist"
                    )
                return [str(each) for each in headers or ()]
    return []


def pin_versions(file_names: Iterable[str], tags: frozenset[Tag]) -> Iterator[str]:
    """Pin each project of which there is one version that the interpreter takes."""
    versions: defaultdict[str, set[Version]] = defaultdict(set)
    for file_name in file_names:
        try:
            name, version, _, its_tags = parse_wheel_filename(file_name)
        except InvalidWheelFilename:
            continue
        if not tags.isdisjoint(its_tags):
            versions[name].add(version)
    return (
        f"{name}=={next(iter(found))}"
        for name, found in sorted(versions.items())
        if len(found) == 1
    )


# Says whose fault it is that pip or uv failed: the package's, an index's or this machine's.
#
# pip leaves out an index that fails, and then reports that no distribution matches, exactly as for
# a project that no index has. Only its log states what the index answered. uv reports the failure.

_FULL, _READ_ONLY = "the disk is full", "the disk cannot be written to"
_UNTRUSTED, _LOCKED = "the index is not trusted", "the index wants credentials"
_ERROR, _UNREACHED = "the index answers with an error", "the index cannot be reached"
_CHANGED = "the index sends other bytes than it states"
_CUT = "the index sent a broken file, or half of one"
_BROKE = "installation broke"
_ORDER = (_FULL, _READ_ONLY, _LOCKED, _ERROR, _UNTRUSTED, _CHANGED, _CUT, _BROKE, _UNREACHED)
"""Of several faults of one run the first names them all."""

_OF_MACHINE = {  # numbers of errno, and of Windows: access denied, write-protected, disk full
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, 5, 19), _READ_ONLY),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, 112), _FULL),
    **dict.fromkeys((errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN), _BROKE),
}
"""The errors of the operating system that no package causes: a path that is too long is its own."""
_SYSTEM = re.compile(r"^\[(?:Errno|WinError) (\d+)\]|\(os error (\d+)\)$")

# The crosses, box lines and arrows that uv draws, and colours.
_DRAWING = re.compile(r"[\u00d7\u2500-\u257f\u25b6]+|\x1b\[[0-9;]*m")
_START = re.compile(
    r"\s*(?:(?P<kind>ERROR|WARNING|error|warning|hint|help|note|Caused by|cause):"
    r"|(?P<drawn>[\u00d7\u251c\u2570])[\u2500\u25b6>]*) "
)
_CHAINED = ("Caused by", "cause", "\u251c", "\u2570")

# What a line of the log begins with; the output of a build is indented there.
_LOGGED = re.compile(
    r"^\S+ (?:WARNING: )?(?:Could not fetch URL (?P<url>\S+): (?P<reason>.+) - skipping$"
    r"|Skipping page (?P<page>\S+) because the .* got Content-Type: (?P<type>.*?)\. The only )",
    re.MULTILINE,
)
_ABSENT = re.compile(r"4(?:04|10) Client Error")
# PyTorch's own index has no better answer for a project that it lacks; uv knows that of it, too.
_ABSENT_THERE = re.compile(r"https://download\.pytorch\.org/\S* 403 Client Error")
_IGNORED = re.compile(r"The repository located at (?P<host>\S+) is not a trusted or secure host")
_BROKEN_OFF = re.compile(r"^ERROR: Exception:\nTraceback ", re.MULTILINE)
_REQUESTS = re.compile(  # the frames of a traceback in which pip asks an index
    r"pip[\\/](?:_internal[\\/](?:index[\\/]collector|network[\\/])"
    r"|_vendor[\\/](?:urllib3|requests|cachecontrol|truststore)[\\/])"
)
_POOL = re.compile(
    r"HTTPS?ConnectionPool\(host='(?P<host>.*?)', port=(?P<port>\d+)\): "
    r"(?:Max retries exceeded with url: (?P<path>\S+) \(Caused by (?P<reason>.*)\))?"
)
_OF_REQUESTS = re.compile(r"HTTPS?ConnectionPool\(|https?://|[Cc]onnection |IncompleteRead")
"""What errors of requests speak of; pip also calls it an OSError where a wheel has no RECORD."""
_AROUND = re.compile(  # what pip, urllib3 and requests write around a reason
    r"<[\w.]+ object at 0x\w+>: | for url: \S+| for url \([^()]*\)|^connection error: "
    r"|Could not install packages due to an OSError: |^THESE PACKAGES .*? tampered with them\. "
)

# The words at the beginning of what pip or uv reports as an error.
_BEGINNINGS = {
    cause: re.compile(words, re.IGNORECASE)
    for cause, words in {
        _LOCKED: r"An index(?: URL)? \(.*?\) (?:could not be queried due to a lack of valid"
        r"|returned a 403)|HTTP (?:status client error \(|error )40[137]\b",
        _ERROR: r"HTTP (?:status (?:client|server) error \(|error )\d+"
        r"|Could not install requirement .* because of HTTP error",
        _UNTRUSTED: r"invalid peer certificate|ssl-(?:missing|verification-failed)$",
        _CHANGED: r"THESE PACKAGES DO NOT MATCH THE HASHES|Hash mismatch for ",
        _CUT: r"Wheel '[\w.-]+' located at \S*pip-\w+-\S+ is invalid|incomplete-download$"
        r"|The structure of (?:\S+==|\S+ \(v)\S+ was invalid",
        _BROKE: r"failed to build ",
        _UNREACHED: r"error sending request|dns error|error decoding response body"
        r"|operation timed out|request failed after|failed to (?:fetch|download)\b"
        r"|failed to read `--find-links`|unsupported `content-type`|received some unexpected "
        r"|(?:connection-failed|connection-timeout|proxy-connection-failed)$",
    }.items()
}
# The same of what is known to be an answer of an index, or the want of one.
_REASONS = {
    _LOCKED: re.compile(r"(?:^|failed: )40[137] "),
    _ERROR: re.compile(r"(?:^|failed: |too many )[345]\d\d "),
    _UNTRUSTED: re.compile(r"SSL|certificate|check_hostname"),
    _CUT: re.compile(r"JSONDecodeError"),
}
_LONGEST_FAULT = 600  # characters

_NOT_GIVEN = re.compile(
    r"was not found in the provided package locations|there (?:is|are) no versions? of"
    r"|could not find a version that satisfies|no matching distribution|no solution found",
    re.IGNORECASE,
)
# How uv says that settings of the user's, in whatever file, left it no index.
_NO_INDEX = re.compile(
    r"index lookups were disabled|network was disabled|in the provided package locations"
)
# uv refuses a URL in what comes from an index by itself; pip does where it comes from PyPI.
_BY_URL = re.compile(
    rf"^{REFUSED}(?P<held>.+)"
    r"|URL dependencies must be expressed as direct requirements"
    r"|cannot depend on packages which are not also hosted on PyPI"
    r"|InvalidRequirement: Invalid URL",
    re.MULTILINE,
)
_NOT_BUILT = re.compile(
    r"building from source is disabled|building source distributions .*disabled", re.IGNORECASE
)
_NO_WHEEL = re.compile(r"satisfies the requirement (?P<text>\S.*?) \(from ")
_SKIPPED = re.compile(r"No sources permitted for \S+ (?P<url>\S+)")
_FOLLOWS = "which only --binary-allow-builds follows"
_BUILDS = "and only --binary-allow-builds builds one"
# Paths of a folder that uv unpacked into, another one each time.
_PRIVATE = re.compile(r"[^\s`'\"]*[\\/]\.tmp\w+[\\/]")


class _Statement(NamedTuple):
    """What an installer reports on one line, or on several where it breaks them."""

    kind: str  # "error", "cause", "hint", ...; "" for all else
    text: str


def blame(output: str, *, index: bool, log: str = "") -> str:
    """Return an installer's complaint in one line when the package is to blame, else raise.

    ``index`` says whether the installer had one to ask; ``log`` is what pip wrote for itself.
    """
    line, said = say_in_one_line(output), output
    # uv breaks its lines at the width of a terminal, wherever that falls.
    output = f"{output}\n{' '.join(_DRAWING.sub(' ', output).split())}"
    if found := _BY_URL.search(output):
        held = found["held"] or line
        raise Unavailable(f"a package requires another by URL, {_FOLLOWS}: {held}")
    if (fault := find_fault(said, log)) and not _NOT_BUILT.search(output):
        raise GatherError(fault)
    if _NOT_BUILT.search(output) or _has_source(output, log):
        raise Unavailable(f"a requirement has no wheel for this interpreter, {_BUILDS}: {line}")
    if (not index or _NO_INDEX.search(output)) and _NOT_GIVEN.search(output):
        raise Unavailable(f"a requirement is not among the wheels given: {line}")
    return line


def _has_source(output: str, log: str) -> bool:
    """Whether pip left out an sdist of what it found no version of."""
    try:
        wanted = Requirement(name_lacking(output))
    except InvalidRequirement:  # an empty text, too
        return False
    return any(_is_source_of(wanted, url) for url in _SKIPPED.findall(log))


def _is_source_of(wanted: Requirement, url: str) -> bool:
    file_name = url.partition("#")[0].rpartition("/")[2]
    try:
        name, version = parse_sdist_filename(file_name)
    except InvalidSdistFilename:
        return False
    fits = wanted.specifier.contains(version, prereleases=True)
    return fits and name == canonicalize_name(wanted.name)


def say_in_one_line(output: str) -> str:
    """The lines that say something, pip's ``ERROR:`` lines when there are some, joined."""
    lines = [" ".join(_DRAWING.sub(" ", line).split()) for line in output.splitlines()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    if errors == ["Exception:"]:  # pip broke: its traceback's last line says with what
        errors = [line for line in lines if line][-1:]
    chosen = errors or [
        line for line in lines if line and not line.startswith(("Using ", "Resolved ", "hint:"))
    ]
    return _PRIVATE.sub("", " ".join(chosen))[:1000] or "the installer failed without a message"


def name_lacking(output: str) -> str:
    """Return the requirement that pip found no wheel for; "" where it failed otherwise."""
    found = _NO_WHEEL.search(output)
    return found["text"] if found else ""


def broke_off(output: str) -> str:
    """Return the last line of the traceback that pip ended with; "" where it has none."""
    return output.rstrip().rpartition("\n")[2] if _BROKEN_OFF.search(output) else ""


def find_fault(output: str, log: str = "") -> str:
    """Return the fault of an index or of this machine in one line that begins with its cause.

    "" where there is none: then the package is to blame. ``output`` is that of an installer which
    failed, ``log`` what pip wrote into its log. The words of a package count nowhere: it may
    require a project that is called ``certificate``.
    """
    faults: dict[str, str] = {}
    for cause, said in (*_read_log(log), *_read_traceback(output), *_read_errors(output, log)):
        faults.setdefault(cause, " ".join(said.split()))
    return next((f"{cause}: {faults[cause]}" for cause in _ORDER if cause in faults), "")[
        :_LONGEST_FAULT
    ]


def read_log(path: Path) -> str:
    """Return what pip wrote into its log; "" where it wrote none, as on a full disk."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _read_log(log: str) -> Iterator[tuple[str, str]]:
    for line in _LOGGED.finditer(log):
        if line["page"]:
            yield _UNREACHED, f"{line['page']}: sends {line['type']} instead of a list of files"
            continue
        reason = _shorten(_POOL.sub(r"\g<reason>", line["reason"]))
        if not (_ABSENT.match(reason) or _ABSENT_THERE.match(f"{line['url']} {reason}")):
            yield _name_reason(reason), f"{line['url']}: {reason}"


def _read_traceback(output: str) -> Iterator[tuple[str, str]]:
    """Blame the index where pip itself broke while it asked one."""
    last = broke_off(output)
    if not last:
        return
    if last.startswith("MemoryError"):
        yield _BROKE, last
    elif cause := _name_of_machine(last.partition(": ")[2]):
        yield cause, last
    elif _REQUESTS.search(output):
        yield _name_reason(last), _shorten(last)


def _read_errors(output: str, log: str) -> Iterator[tuple[str, str]]:
    statements = [*_split(output)]
    for place, (kind, text) in enumerate(statements):
        if ignored := _IGNORED.match(text):
            way = "it has no https, and is no trusted-host"
            yield _UNREACHED, f"pip leaves out {ignored['host']}: {way}"
        elif kind == "WARNING" and text.startswith("Retrying (") and not log:
            yield _UNREACHED, text
        elif kind not in ("", "WARNING", "warning") and (cause := _name_error(text)):
            yield cause, _tell(statements, place)


def _split(output: str) -> Iterator[_Statement]:
    """Yield the statements of an output; uv breaks its lines at the width of a terminal."""
    kind, words = "", list[str]()
    for line in output.splitlines():
        begun = _START.match(line)
        if begun:
            yield _Statement(kind, " ".join(words))
            kind, words = begun["kind"] or begun["drawn"], []
        words += _DRAWING.sub(" ", line[begun.end() if begun else 0 :]).split()
    yield _Statement(kind, " ".join(words))


def _name_error(text: str) -> str:
    """Name the cause of what is reported as an error; "" where it is the package's fault."""
    _, by_system, reason = text.rpartition("due to an OSError: ")
    if by_system and not reason.startswith("[") and _OF_REQUESTS.search(reason):
        return _name_reason(reason)  # the errors of requests have no number
    begun = (cause for cause, words in _BEGINNINGS.items() if words.match(text))
    return _name_of_machine(reason) or next(begun, "")


def _name_reason(reason: str) -> str:
    return next((cause for cause, said in _REASONS.items() if said.search(reason)), _UNREACHED)


def _name_of_machine(text: str) -> str:
    found = _SYSTEM.search(text)
    return _OF_MACHINE.get(int(found[1] or found[2]), "") if found else ""


def _tell(statements: list[_Statement], place: int) -> str:
    """Return the statement, or the first and the last of the chain of causes that it is part of."""
    if " " not in statements[place].text and place + 1 < len(statements):
        place += 1  # the names that pip gives to its errors
    first = last = place
    while first > 0 and statements[first].kind in _CHAINED:
        first -= 1
    while last + 1 < len(statements) and statements[last + 1].kind in _CHAINED:
        last += 1
    texts = [_shorten(statements[each].text) for each in (first, last)]
    return texts[0] if first == last else f"{texts[0]} ({texts[1]})"


def _shorten(text: str) -> str:
    return _AROUND.sub("", _POOL.sub(r"\g<host>:\g<port>\g<path> \g<reason>", text))


# Downloads wheels for another system with pip, from wherever the user's settings say.

_LONGEST_DOWNLOAD = 3600.0  # seconds; torch's requirements are more than 2 GB


def download(requirements: Iterable[str], python: ForeignPython, folder: Path) -> str:
    """Put a wheel for each requirement into the folder, without what these require in turn.

    Raises GatherError, in one line, when an index has none that fits, or was not reached. Where pip
    broke, what it broke with: it may have done all by then. pip 23.2 looks last at requirements
    that it cannot read.
    """
    if not has_pip():
        raise GatherError(
            "--binary-with-requirements needs pip in the environment of binary_checks"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GatherError(f"requirements: {folder}: {error.strerror}") from None
    options = ("--disable-pip-version-check", "--no-input", "--quiet", "--no-deps")
    with tempfile.TemporaryDirectory(prefix="binary_checks-", ignore_cleanup_errors=True) as place:
        log = Path(place, "log")
        ended = run_process(
            (
                *(sys.executable, DEAF, HELD_PIP, "", "download", *options),
                *("--only-binary", ":all:", *python.options(), "--dest", str(folder)),
                *("--", *requirements),
            ),
            cwd=choose_folder(Path(place)),
            env={
                **make_installer_environment(Path(place)),
                "GIT_ALLOW_PROTOCOL": "none",
                "PIP_LOG": str(log),
            },
            timeout=_LONGEST_DOWNLOAD,
        )
        if ended.status == 0:
            return ""
        if ended.status is None:
            raise GatherError(
                f"requirements: the download took longer than {_LONGEST_DOWNLOAD:g} s"
            )
        if fault := find_fault(ended.stderr, read_log(log)):
            raise GatherError(fault)
    if broken := broke_off(ended.stderr):
        return broken
    raise _explain(ended, python)


def _explain(ended: Ended, python: ForeignPython) -> GatherError:
    if asked := name_lacking(ended.stderr):
        lacking = f"wheel of {asked} for {python.abi} on {python.platforms[0]} or newer"
        advice = "give one with --binary-with"
        return NoWheelError(f"requirements: the index has no {lacking}; {advice}", lacking)
    return GatherError(f"requirements: {say_in_one_line(ended.stderr)}")
