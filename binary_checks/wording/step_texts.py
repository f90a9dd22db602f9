"""Reads what a probed step left behind: how it ended, what it found, what of its stderr counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from binary_checks.model import Ending, Finding, ImportReport, Note, NotInspected, Step
from binary_checks.wording.phrases import name_first

# What the loader, the C library or the interpreter itself writes when something is badly wrong.
# A package's own "cannot open shared object file" is no such text: optional plug-ins say that.
_FATAL_TEXT = (
    r"symbol lookup error:|error while loading shared libraries:|undefined symbol: "
    r"|no version information available \(required by|Inconsistency detected by ld\.so"
    r"|in static TLS block|^dyld(?:\[\d+\])?: |^Fatal Python error: |^terminate called "
    r"|\*\*\* stack smashing detected|^(?:double free or corruption|free\(\): invalid|malloc\(\): )"
    r"|^(?:corrupted (?:size|double)|munmap_chunk\(\): )"
)
_LONGEST_REMARK = 200  # characters
_GIL_MODULE = r"enabled to load module '(?P<name>[^']+)'"


def describe_end(step: Step) -> str:
    """Say how a step ended, as the end of a sentence."""
    end = "exits too early" if step.finished else "ends the process"
    return {
        Ending.RAISED: f"raises {step.detail}",
        Ending.LOADER_ERROR: f"is refused by the loader: {step.detail}",
        Ending.CRASHED: f"crashes: {step.detail}",
        Ending.HUNG: f"hangs: {step.detail}",
        Ending.STOPPED: f"is stopped: {step.detail}",
        Ending.EXITED: f"{end}: {step.detail}",
        Ending.OK: "succeeds",
    }[step.outcome]


def read_stderr(step: Step) -> Iterator[Finding]:
    """Tell the system's lines from the package's own, where the import alone can have written."""
    if step.finished:
        yield NotInspected(
            sentence=f"import {step.name} shares its stderr with a process that ended badly"
        )
    elif step.outcome is Ending.OK:
        for line in find_fatal_lines(step.stderr):
            yield f"import {step.name} makes the system write: {line}"
        if remark := find_remark(step.stderr):
            yield Note(sentence=f"import {step.name} writes to stderr: {remark}")


def find_fatal_lines(stderr: str) -> tuple[str, ...]:
    """Find the lines by which the system reports an error, each once, without process numbers."""
    lines = [line for line in stderr.splitlines() if re.search(_FATAL_TEXT, line)]
    return tuple(dict.fromkeys(re.sub(r"\[\d+\]", "", line).strip() for line in lines))


def find_gil_modules(stderr: str) -> tuple[str, ...]:
    """Name the modules that a free-threaded interpreter blames for the GIL."""
    return tuple(sorted({match["name"] for match in re.finditer(_GIL_MODULE, stderr)}))


def find_unfinished(steps: Iterable[Step]) -> Iterator[NotInspected]:
    """Name the imports that never came to their end: nothing that follows one was seen of them."""
    for step in steps:
        if step.outcome is not Ending.OK and not step.finished:
            yield NotInspected(sentence=f"import {step.name} did not succeed")


def find_untried(report: ImportReport) -> Iterator[NotInspected]:
    """Name the imports that were never begun, in one line."""
    if report.untried:
        sentence = f"import of {name_first(report.untried)} was not tried: {report.limit}"
        yield NotInspected(sentence=sentence)


def find_remark(stderr: str) -> str:
    """Find the last line that no check counts, and how many there are beside it; "" for none.

    An indented line goes with the one above: Python shows source below a warning.
    """
    counted = find_fatal_lines(stderr)
    lines = [
        line.strip()
        for line in stderr.splitlines()
        if line.strip() and not line[0].isspace() and not re.search(_GIL_MODULE, line)
    ]
    lines = [line for line in lines if re.sub(r"\[\d+\]", "", line).strip() not in counted]
    if not lines:
        return ""
    last, more = lines[-1], len(lines) - 1
    shown = last if len(last) <= _LONGEST_REMARK else f"{last[:_LONGEST_REMARK]}..."
    return f"{shown} (after {more} more)" if more else shown


def find_stranger(step: Step, hashes: Mapping[str, str]) -> Iterator[Finding]:
    """Say what is wrong with the file that an import found; ``hashes`` are the package's, by path.

    Nothing is said of an import that did not succeed.
    """
    if step.outcome is not Ending.OK and not step.finished:
        return
    if not step.origin:
        yield NotInspected(sentence=f"import {step.name} does not say which file it found")
    elif step.origin not in hashes:
        yield f"import {step.name} finds {step.origin}, which is not part of this package"
    elif not step.origin_sha256:
        yield f"import {step.name} removes {step.origin}"
    elif hashes[step.origin] not in {"", step.origin_sha256}:
        yield f"import {step.name} finds {step.origin} with different contents than in the wheel"


def spell_dotted(path: str) -> str:
    """Spell the path of an extension module as it is imported."""
    folder, slash, file_name = path.rpartition("/")
    return (folder + slash).replace("/", ".") + file_name.partition(".")[0]
