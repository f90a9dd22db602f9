"""Installation and downloads of wheels with uv, or with pip if uv is not installed."""

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
from binary_checks.model import applies, read_requirement
from binary_checks.places.foreign_tags import ForeignPython
from binary_checks.places.index_settings import (
    PIP,
    PIP_WITHOUT_URLS,
    choose_folder,
    has_pip,
    is_true,
    make_installer_environment,
    read_pip_settings,
    translate_for_uv,
    translate_variables_for_uv,
)
from binary_checks.places.processes import name_crash, read_or_empty, run_process
from binary_checks.places.scripts.pip_without_urls import REFUSED
from binary_checks.processes import SAFE_PATH, user_environment


@dataclass(frozen=True, kw_only=True, slots=True)
class Installer:
    """A program that installs wheels into the environment of a given interpreter."""

    name: str  # "uv 0.13.8"
    command: tuple[str, ...]  # the command up to "install", included
    no_index: tuple[str, ...]  # options that disable all of the user's sources
    has_index: bool = True  # whether the user's settings leave the installer an index
    # variable that names the file to which pip logs requests and the files that it skipped
    log_variable: str = ""
    # options for the user's sources, for an installer that does not read these settings
    sources: tuple[str, ...] = ()
    # whether the installer must run in the user's folder, as settings may contain relative paths
    relative: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    # variables to set together with `no_index`
    without_sources: Mapping[str, str] = field(default_factory=dict)


def find_installer(
    python: Path, *, cwd: Path, timeout: float, builds: bool = False, tool: str = ""
) -> Installer:
    """Find uv, else the pip of this environment, else install the interpreter's bundled pip.

    With ``tool`` only this one, "uv" or "pip", is accepted. Without ``builds`` the installer builds
    nothing, and does not follow URLs in a package's requirements. Raises GatherError if none of the
    three runs, Unavailable if there is no uv and only uv is accepted.
    """
    environ = make_installer_environment()
    if tool != "pip" and (binary := find_uv()) is not None:
        version = run_process((binary, "--version"), cwd=cwd, env=environ, timeout=timeout)
        if version.status == 0:
            return _make_uv(binary, version.stdout, python, builds=builds)
    if tool == "uv":
        raise Unavailable("there is no uv here: install it to install the package with it")
    for pip in _find_pips(python, cwd=cwd, timeout=timeout, builds=builds):
        version = run_process((*pip, "--version"), cwd=cwd, env=environ, timeout=timeout)
        if version.status == 0:
            return _make_pip(pip, version.stdout, builds=builds)
    raise GatherError(f"there is neither uv nor a pip that runs on {python}")


def _find_pips(
    python: Path, *, cwd: Path, timeout: float, builds: bool
) -> Iterator[tuple[str, ...]]:
    """Yield the command of this environment's pip, then that of the interpreter's own pip.

    The interpreter's pip is installed only when the caller requests the second command.
    """
    start = (str(python), "-I")
    held = (*start, PIP_WITHOUT_URLS)
    spec = importlib.util.find_spec("pip")
    if spec is not None and spec.origin is not None:
        folder = str(Path(spec.origin).parents[1])
        yield (*PIP, "--python", str(python)) if builds else (*held, folder)
    done = run_process(
        (*start, "-m", "ensurepip"), cwd=cwd, env=make_installer_environment(), timeout=timeout
    )
    if done.status == 0:
        yield (*start, "-m", "pip") if builds else (*held, "")


def _make_pip(pip: tuple[str, ...], version: str, *, builds: bool) -> Installer:
    options = ("--disable-pip-version-check", "--no-input", "--no-compile")
    wheels_only = () if builds else ("--only-binary", ":all:")
    return Installer(
        name=" ".join(version.split()[:2]) or "pip",
        command=(*pip, "install", *options, *wheels_only),
        no_index=("--no-index",),
        has_index=not is_true(read_pip_settings().get("no-index", "")),
        log_variable="PIP_LOG",  # pips that install build requirements read this variable, too
        relative=True,
        without_sources={"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""},
    )


def find_uv() -> str | None:
    """Find uv on PATH or as a package of this environment, but never in the current folder.

    Return None if uv is not installed.
    """
    # Windows searches the current folder first, and then returns ".\\uv.EXE"
    found = shutil.which("uv")
    if found and Path(found).is_absolute():
        return found
    try:
        return str(importlib.import_module("uv").find_uv_bin())
    except (ImportError, AttributeError, OSError):
        return None


def _make_uv(binary: str, version: str, python: Path, *, builds: bool) -> Installer:
    settings, environ = read_pip_settings(), user_environment()
    sources = translate_for_uv(settings, environ)
    # A hard link would share the file with uv's cache and with all other environments.
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
    """Install the package, the last of ``requirements``, with the packages that it requires.

    Return "" or why the package was refused.

    ``requirements`` may include options. Without ``index`` the given files are the only source.
    Raises GatherError if a source or the machine failed, Unavailable if a requirement was not among
    the given wheels.
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
        log_text = read_or_empty(log)  # on a full disk there is none
    return attribute_failure(
        ended.stderr or ended.stdout, index=index and installer.has_index, log=log_text
    )


# Wheels that the user gives alongside a package, as arguments for installers.

_LONGEST_METADATA = 16 << 20  # bytes read of a METADATA file


def describe_given(
    paths: Iterable[Path], tags: frozenset[Tag], constraints: Path
) -> tuple[str, ...]:
    """Return each wheel as a requirement, and each folder as a ``--find-links`` option.

    If a folder contains a single version of a project, this version is used even if an index has a
    newer one: the file ``constraints`` pins it. Raises Unavailable for a missing path.
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
    """Yield the Requires-Dist of each wheel that is given as a file, for any extra.

    Folders are omitted: installers choose from them as from an index. Files that cannot be read are
    skipped, since the installer refuses them.
    """
    for path in paths:
        if path.suffix != ".whl" or not path.is_file():
            continue
        with (
            contextlib.suppress(OSError, ValueError, LookupError, zipfile.BadZipFile, RuntimeError),
            zipfile.ZipFile(path) as archive,
        ):
            named = re.compile(r"[^/]+\.dist-info/METADATA")
            with archive.open(next(filter(named.fullmatch, archive.namelist()), "")) as file:
                message = message_from_bytes(file.read(_LONGEST_METADATA))
            yield from map(str, message.get_all("Requires-Dist") or ())


def read_applicable(
    texts: Iterable[str], markers: Mapping[str, str], extras: Iterable[str] = ()
) -> Iterator[Requirement]:
    """Yield the valid requirements that apply without an extra, or with one of these extras."""
    for item in filter(None, map(read_requirement, texts)):
        if any(applies(item, {**markers, "extra": extra}) for extra in ("", *extras)):
            yield item


def pin_versions(file_names: Iterable[str], tags: frozenset[Tag]) -> Iterator[str]:
    """Yield a pin for each project with exactly one version that the interpreter accepts."""
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


# The cause of a failure of pip or uv: the package, an index or this machine.
#
# pip skips an index that fails, and then reports that no distribution matches, exactly as for a
# project that no index has. Only pip's log contains the index's answer. uv reports the failure.

_FULL, _READ_ONLY = "the disk is full", "the disk cannot be written to"
_UNTRUSTED, _LOCKED = "the index is not trusted", "the index wants credentials"
_ERROR, _UNREACHED = "the index answers with an error", "the index cannot be reached"
_CHANGED = "the index sends other bytes than it states"
_CUT = "the index sent a broken file, or half of one"
_BROKE = "installation broke"
_ORDER = (_FULL, _READ_ONLY, _LOCKED, _ERROR, _UNTRUSTED, _CHANGED, _CUT, _BROKE, _UNREACHED)
"""Causes in order of precedence: if a run has several, only the first is reported."""

_OF_MACHINE = {  # values of errno, and of Windows: access denied, write-protected, disk full
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, 5, 19), _READ_ONLY),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, 112), _FULL),
    **dict.fromkeys((errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN), _BROKE),
}
"""Errors of the operating system that no package causes; a path that is too long is the package's
fault.
"""
_SYSTEM = re.compile(r"^\[(?:Errno|WinError) (\d+)\]|\(os error (\d+)\)$")

# The crosses, box lines and arrows that uv draws, and escape sequences of colours.
_DRAWING = re.compile(r"[\u00d7\u2500-\u257f\u25b6]+|\x1b\[[0-9;]*m")
_START = re.compile(
    r"\s*(?:(?P<kind>ERROR|WARNING|error|warning|hint|help|note|Caused by|cause):"
    r"|(?P<drawn>[\u00d7\u251c\u2570])[\u2500\u25b6>]*) "
)
_CHAINED = ("Caused by", "cause", "\u251c", "\u2570")

# The beginning of a line in pip's log; output of a build is indented there.
_LOGGED = re.compile(
    r"^\S+ (?:WARNING: )?(?:Could not fetch URL (?P<url>\S+): (?P<reason>.+) - skipping$"
    r"|Skipping page (?P<page>\S+) because the .* got Content-Type: (?P<type>.*?)\. The only )",
    re.MULTILINE,
)
_ABSENT = re.compile(r"4(?:04|10) Client Error")
# download.pytorch.org answers 403 for a project that it lacks; uv makes the same exception.
_ABSENT_THERE = re.compile(r"https://download\.pytorch\.org/\S* 403 Client Error")
_IGNORED = re.compile(r"The repository located at (?P<host>\S+) is not a trusted or secure host")
_BROKEN_OFF = re.compile(r"^ERROR: Exception:\nTraceback ", re.MULTILINE)
_REQUESTS = re.compile(  # frames of a traceback of pip that was querying an index
    r"pip[\\/](?:_internal[\\/](?:index[\\/]collector|network[\\/])"
    r"|_vendor[\\/](?:urllib3|requests|cachecontrol|truststore)[\\/])"
)
_POOL = re.compile(
    r"HTTPS?ConnectionPool\(host='(?P<host>.*?)', port=(?P<port>\d+)\): "
    r"(?:Max retries exceeded with url: (?P<path>\S+) \(Caused by (?P<reason>.*)\))?"
)
_OF_REQUESTS = re.compile(r"HTTPS?ConnectionPool\(|https?://|[Cc]onnection |IncompleteRead")
"""Words in messages of the requests library. Without them an OSError may be from pip itself, which
raises one for a wheel without RECORD.
"""
_AROUND = re.compile(  # text that pip, urllib3 and requests add to a reason
    r"<[\w.]+ object at 0x\w+>: | for url: \S+| for url \([^()]*\)|^connection error: "
    r"|Could not install packages due to an OSError: |^THESE PACKAGES .*? tampered with them\. "
)

# The first words of errors that pip and uv report.
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
# Words for each cause in a message that is known to describe an index's answer.
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
# uv's messages if the user's settings disable uv's index, in whatever file they are.
_NO_INDEX = re.compile(
    r"index lookups were disabled|network was disabled|in the provided package locations"
)
# By default uv refuses URL requirements of packages from any index, pip only of those from PyPI.
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
# Paths in a temporary folder of uv; its name is different in each run.
_PRIVATE = re.compile(r"[^\s`'\"]*[\\/]\.tmp\w+[\\/]")


class _Statement(NamedTuple):
    """A statement of an installer, possibly wrapped over several lines."""

    kind: str  # "error", "cause", "hint", …; "" for all other text
    text: str


def attribute_failure(output: str, *, index: bool, log: str = "") -> str:
    """Return an installer's error in one line if the package is the cause, otherwise raise.

    ``index`` states whether the installer had an index; ``log`` is the content of pip's log.
    """
    line, original = summarise_output(output), output
    # uv wraps its lines at the terminal's width, even inside a word.
    output = f"{output}\n{' '.join(_DRAWING.sub(' ', output).split())}"
    if found := _BY_URL.search(output):
        held = found["held"] or line
        raise Unavailable(f"a package requires another by URL, {_FOLLOWS}: {held}")
    if (fault := find_fault(original, log)) and not _NOT_BUILT.search(output):
        raise GatherError(fault)
    if _NOT_BUILT.search(output) or _has_source(output, log):
        raise Unavailable(f"a requirement has no wheel for this interpreter, {_BUILDS}: {line}")
    if (not index or _NO_INDEX.search(output)) and _NOT_GIVEN.search(output):
        raise Unavailable(f"a requirement is not among the wheels given: {line}")
    return line


def _has_source(output: str, log: str) -> bool:
    """Return whether pip skipped an sdist of a project for which it found no version."""
    try:
        wanted = Requirement(find_missing_requirement(output))
    except InvalidRequirement:  # this is not a requirement, or the text is empty
        return False
    for url in _SKIPPED.findall(log):
        with contextlib.suppress(InvalidSdistFilename):
            name, version = parse_sdist_filename(url.partition("#")[0].rpartition("/")[2])
            fits = wanted.specifier.contains(version, prereleases=True)
            if fits and name == canonicalize_name(wanted.name):
                return True
    return False


def summarise_output(output: str) -> str:
    """Return the relevant lines as one line: pip's ``ERROR:`` lines if there are some."""
    lines = [" ".join(_DRAWING.sub(" ", line).split()) for line in output.splitlines()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    # pip itself failed: the last line of its traceback names the exception
    if errors == ["Exception:"]:
        errors = [line for line in lines if line][-1:]
    chosen = errors or [
        line for line in lines if line and not line.startswith(("Using ", "Resolved ", "hint:"))
    ]
    return _PRIVATE.sub("", " ".join(chosen))[:1000] or "the installer failed without a message"


def find_missing_requirement(output: str) -> str:
    """Return the requirement for which pip found no wheel, or "" for any other failure."""
    found = _NO_WHEEL.search(output)
    return found["text"] if found else ""


def read_last_line(output: str) -> str:
    """Return the last line of the traceback with which pip ended, or "" if there is none."""
    return output.rstrip().rpartition("\n")[2] if _BROKEN_OFF.search(output) else ""


def find_fault(output: str, log: str = "") -> str:
    """Return a fault of an index or of this machine in one line that begins with its cause.

    Return "" if there is no such fault: then the package is the cause. ``output`` is the output of
    an installer that failed, ``log`` the content of pip's log file. Only words of the installer
    count: a package may require a project called ``certificate``.
    """
    faults: dict[str, str] = {}
    for cause, message in (*_read_log(log), *_read_traceback(output), *_read_errors(output, log)):
        faults.setdefault(cause, " ".join(message.split()))
    return next((f"{cause}: {faults[cause]}" for cause in _ORDER if cause in faults), "")[
        :_LONGEST_FAULT
    ]


def _read_log(log: str) -> Iterator[tuple[str, str]]:
    for line in _LOGGED.finditer(log):
        if line["page"]:
            yield _UNREACHED, f"{line['page']}: sends {line['type']} instead of a list of files"
            continue
        reason = _shorten(_POOL.sub(r"\g<reason>", line["reason"]))
        if not (_ABSENT.match(reason) or _ABSENT_THERE.match(f"{line['url']} {reason}")):
            yield _name_reason(reason), f"{line['url']}: {reason}"


def _read_traceback(output: str) -> Iterator[tuple[str, str]]:
    """Yield the index's fault if pip failed while it queried an index."""
    last = read_last_line(output)
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
            way = "it does not use https, and is not a trusted-host"
            yield _UNREACHED, f"pip leaves out {ignored['host']}: {way}"
        elif kind == "WARNING" and text.startswith("Retrying (") and not log:
            yield _UNREACHED, text
        elif kind not in ("", "WARNING", "warning") and (cause := _name_error(text)):
            yield cause, _format_chain(statements, place)


def _split(output: str) -> Iterator[_Statement]:
    """Yield the statements of an output; uv wraps its lines at the terminal's width."""
    kind, words = "", list[str]()
    for line in output.splitlines():
        begun = _START.match(line)
        if begun:
            yield _Statement(kind, " ".join(words))
            kind, words = begun["kind"] or begun["drawn"], []
        words += _DRAWING.sub(" ", line[begun.end() if begun else 0 :]).split()
    yield _Statement(kind, " ".join(words))


def _name_error(text: str) -> str:
    """Return the cause of a reported error, or "" if the package is the cause."""
    _, by_system, reason = text.rpartition("due to an OSError: ")
    if by_system and not reason.startswith("[") and _OF_REQUESTS.search(reason):
        return _name_reason(reason)  # errors of the requests library have no errno
    begun = (cause for cause, words in _BEGINNINGS.items() if words.match(text))
    return _name_of_machine(reason) or next(begun, "")


def _name_reason(reason: str) -> str:
    return next(
        (cause for cause, pattern in _REASONS.items() if pattern.search(reason)), _UNREACHED
    )


def _name_of_machine(text: str) -> str:
    found = _SYSTEM.search(text)
    return _OF_MACHINE.get(int(found[1] or found[2]), "") if found else ""


def _format_chain(statements: list[_Statement], place: int) -> str:
    """Return the statement; for a chain of causes, return its first and its last statement."""
    if " " not in statements[place].text and place + 1 < len(statements):
        place += 1  # the statement is pip's identifier for the error; the text follows
    first = last = place
    while first > 0 and statements[first].kind in _CHAINED:
        first -= 1
    while last + 1 < len(statements) and statements[last + 1].kind in _CHAINED:
        last += 1
    texts = [_shorten(statements[each].text) for each in (first, last)]
    return texts[0] if first == last else f"{texts[0]} ({texts[1]})"


def _shorten(text: str) -> str:
    return _AROUND.sub("", _POOL.sub(r"\g<host>:\g<port>\g<path> \g<reason>", text))


# Downloads of wheels for another system, from the indexes in the user's settings for pip.

_LONGEST_DOWNLOAD = 3600.0  # seconds; torch's requirements are more than 2 GB


def download(requirements: Iterable[str], python: ForeignPython, folder: Path) -> str:
    """Download a wheel for each requirement into the folder, without the wheels' requirements.

    Raises GatherError with one line if an index has no fitting wheel or cannot be reached. If pip
    itself failed, return its last line: pip 23.2 fails on requirements that it cannot parse only
    after all downloads, so the folder may be complete. Otherwise return "".
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
                *(sys.executable, SAFE_PATH, PIP_WITHOUT_URLS, "", "download", *options),
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
        if fault := find_fault(ended.stderr, read_or_empty(log)):
            raise GatherError(fault)
    if broken := read_last_line(ended.stderr):
        return broken
    if asked := find_missing_requirement(ended.stderr):
        lacking = f"wheel of {asked} for {python.abi} on {python.platforms[0]} or newer"
        advice = "give one with --binary-with"
        raise NoWheelError(f"requirements: the index has no {lacking}; {advice}", lacking)
    raise GatherError(f"requirements: {summarise_output(ended.stderr)}")
