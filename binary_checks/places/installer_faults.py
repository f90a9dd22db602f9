"""Says whose fault it is that pip or uv failed: the package's, an index's or this machine's.

pip leaves out an index that fails, and then reports that no distribution matches, exactly as for a
project that no index has. Only its log states what the index answered. uv reports the failure.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidSdistFilename, canonicalize_name, parse_sdist_filename

from binary_checks.errors import GatherError, Unavailable
from binary_checks.places.scripts.held_pip import REFUSED

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
_LONGEST = 600  # characters

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
    return next((f"{cause}: {faults[cause]}" for cause in _ORDER if cause in faults), "")[:_LONGEST]


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
