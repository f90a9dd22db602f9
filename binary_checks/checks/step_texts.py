"""Reads what a probed step left behind: how it ended, and which lines of its stderr count."""

from __future__ import annotations

import re

from binary_checks.model import Outcome, Step

# What the loader, the C library or the interpreter itself writes when something is badly wrong.
# A package's own "cannot open shared object file" is no such text: optional plug-ins say that.
_FATAL_TEXT = re.compile(
    r"symbol lookup error:|error while loading shared libraries:|undefined symbol: "
    r"|no version information available \(required by|Inconsistency detected by ld\.so"
    r"|in static TLS block|^dyld(?:\[\d+\])?: |^Fatal Python error: |^terminate called "
    r"|\*\*\* stack smashing detected|^(?:double free or corruption|free\(\): invalid|malloc\(\): )"
    r"|^(?:corrupted (?:size|double)|munmap_chunk\(\): )"
)
_GIL_MODULE = re.compile(r"enabled to load module '(?P<name>[^']+)'")


def describe_end(step: Step) -> str:
    """Say how a step ended, as the end of a sentence."""
    return {
        Outcome.RAISED: f"raises {step.detail}",
        Outcome.LOADER_ERROR: f"is refused by the loader: {step.detail}",
        Outcome.CRASHED: f"crashes: {step.detail}",
        Outcome.HUNG: f"does not end: {step.detail}",
        Outcome.EXITED: f"ends the process: {step.detail}",
        Outcome.OK: "succeeds",
    }[step.outcome]


def find_fatal_lines(stderr: str) -> tuple[str, ...]:
    """Find the lines by which the system reports an error, each once, without process numbers."""
    lines = filter(_FATAL_TEXT.search, stderr.splitlines())
    return tuple(dict.fromkeys(re.sub(r"\[\d+\]", "", line).strip() for line in lines))


def find_gil_modules(stderr: str) -> tuple[str, ...]:
    """Name the modules that a free-threaded interpreter blames for the GIL."""
    return tuple(sorted({match["name"] for match in _GIL_MODULE.finditer(stderr)}))
