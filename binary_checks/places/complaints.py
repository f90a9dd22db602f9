"""Says whose fault it is that an installer failed, in one line."""

from __future__ import annotations

import re

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidSdistFilename, canonicalize_name, parse_sdist_filename

from binary_checks.errors import GatherError, Unavailable
from binary_checks.places.installer_faults import find_fault
from binary_checks.places.scripts.held_pip import REFUSED

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
# The crosses, box lines and arrows that uv draws, and colours.
_DRAWING = re.compile(r"[\u00d7\u2500-\u257f\u25b6]+|\x1b\[[0-9;]*m")

# Paths of a folder that uv unpacked into, another one each time.
_PRIVATE = re.compile(r"[^\s`'\"]*[\\/]\.tmp\w+[\\/]")


def blame(output: str, *, index: bool, log: str = "") -> str:
    """Return an installer's complaint in one line when the package is to blame, else raise.

    ``index`` says whether the installer had one to ask; ``log`` is what pip wrote for itself.
    """
    line, said = _say_in_one_line(output), output
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
    asked = _NO_WHEEL.search(output)
    try:
        wanted = Requirement(asked["text"]) if asked else None
    except InvalidRequirement:
        wanted = None
    return wanted is not None and any(_is_source_of(wanted, url) for url in _SKIPPED.findall(log))


def _is_source_of(wanted: Requirement, url: str) -> bool:
    file_name = url.partition("#")[0].rpartition("/")[2]
    try:
        name, version = parse_sdist_filename(file_name)
    except InvalidSdistFilename:
        return False
    fits = wanted.specifier.contains(version, prereleases=True)
    return fits and name == canonicalize_name(wanted.name)


def _say_in_one_line(output: str) -> str:
    """The lines that say something, pip's ``ERROR:`` lines when there are some, joined."""
    lines = [" ".join(_DRAWING.sub(" ", line).split()) for line in output.splitlines()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    if errors == ["Exception:"]:  # pip broke: its traceback's last line says with what
        errors = [line for line in lines if line][-1:]
    chosen = errors or [
        line for line in lines if line and not line.startswith(("Using ", "Resolved ", "hint:"))
    ]
    return _PRIVATE.sub("", " ".join(chosen))[:1000] or "the installer failed without a message"
