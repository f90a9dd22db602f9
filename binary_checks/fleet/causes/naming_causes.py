"""Name the cause of an attempt that did not pass: from its result, log, or process's end."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from binary_checks.errors import EMPTY, FIT, INTERRUPTED, MISUSED, OUR_BUG, TRY_AGAIN
from binary_checks.fleet.causes.cause_rules import (
    INFRA,
    LOG,
    LONGEST_LINE,
    PRODUCT,
    REASON,
    TOOL,
    UNKNOWN,
    Causes,
    shipped_causes,
)
from binary_checks.fleet.night import ProcessEnd
from binary_checks.model import Level, Outcome, RunResult
from binary_checks.reports.faults import fold
from binary_checks.safe_text import cut, one_line

MOST_LINES = 2_000
_MOST_BYTES = 1 << 20
_LONGEST_EVIDENCE = 300
_INCONCLUSIVE = (INTERRUPTED, OUR_BUG, EMPTY)
_BY_STATUS = {
    OUR_BUG: ("tool-crashed", TOOL),
    MISUSED: ("option-refused", TOOL),
    126: ("not-installed", TOOL),
    127: ("not-installed", TOOL),
}
"""Exit status -> name and kind of the cause if no line shows more."""
# fraction of memory above which a killed process is assumed to have run out of it
_OUT_OF_MEMORY = 0.8

_BREAK = re.compile(r"[\r\n]+")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]{0,10}(?:Z|[+-]\d\d:?\d\d)? ")
_OF_PACKAGE = re.compile(
    r"\s*(?:FAILED |ERROR |warning: )?(?!binary-checks: )[a-z][a-z0-9-]{1,80}: "
    r"\S{1,200}\.(?:whl|conda|tar\.bz2|tar\.gz|zip)[: ]"
)
"""Matches lines about a package, which may quote the package and show nothing about the host."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """The reason why an attempt did not pass; all fields are empty if the attempt passed."""

    name: str = ""  # from causes.toml, or the first failed check, or "unknown"
    kind: str = ""  # infra, product, tool, unknown
    evidence: str = ""  # the line that shows it, safe to print
    again: bool = False  # whether another attempt at the same bytes may end differently


def name_cause(
    result: RunResult | None,
    log_tail: bytes,
    ended: ProcessEnd,
    causes: Causes | None = None,
    *,
    reason: str = "",
) -> Cause:
    """Return the cause: from the result, from how the process ended, or from the log.

    ``reason`` says why a result without a problem does not count. A result counts only if the
    process ended by itself with the result's exit code. Rules are applied to the log only if there
    is no such result, because the log of a run with a result also quotes text from packages, which
    could match a rule.
    """
    causes = causes or shipped_causes()
    cause = None
    if result is not None and result.exit_code == ended.exit_status:
        cause = _name_unjudged(result) or _name_by_result(result, causes, reason)
    return cause or _name_by_end(ended) or _name_by_log(log_tail, ended, causes)


def _name_by_result(result: RunResult, causes: Causes, reason: str) -> Cause | None:
    """Return the cause in a result; None if the run ended before it found anything."""
    if result.exit_code == FIT:
        found = _find(causes, [reason], REASON) if reason else Cause()
        return found or _unknown(reason, again=True)
    failed = [each for each in result.entries() if each[1].outcome is Outcome.FAILED]
    # This exit code means that a list of known problems could not be read, as a complaint states.
    doubtful = bool(failed) and result.exit_code == TRY_AGAIN
    if failed and not doubtful:
        leaders = find_leaders(result)
        leading = (each for each in failed if leaders and each[1].check == leaders[0])
        package, entry = next(leading, failed[0])
        parts = (text for each in entry.problems[:1] for text in (each.path, each.sentence))
        # For an unreadable package, the entry is of the check that read the package first.
        line = ": ".join(filter(None, (entry.shown_check, package.file_name, *parts)))
        return Cause(name=entry.shown_check, kind=PRODUCT, evidence=_show(line))
    reasons: dict[Outcome, list[str]] = {}
    for _, entry in result.entries():
        if entry.reason:
            reasons.setdefault(entry.outcome, []).append(entry.reason)
    if broken := reasons.get(Outcome.BROKEN):
        return Cause(name="check-broke", kind=TOOL, evidence=_show(broken[0]))
    errors = reasons.get(Outcome.ERROR, [])
    # If nothing broke, the package failed because something could not be inspected.
    lines = errors or reasons.get(Outcome.NOT_INSPECTED, [])
    lines = [*result.complaints, *lines] if doubtful else [*lines, *result.complaints]
    if found := _find(causes, lines, REASON):
        return found
    if result.exit_code in _INCONCLUSIVE and not errors:
        return None
    return _unknown([*lines, ""][0], again=bool(errors) or result.exit_code == TRY_AGAIN)


def _name_unjudged(result: RunResult) -> Cause | None:
    """Return the cause if no attempt can judge the package, else None."""
    for package in result.packages:
        reason = package.unjudged or package.unrun
        if reason and package.verdict is Outcome.NOT_JUDGED:
            return Cause(name="not-judged", kind=TOOL, evidence=_show(reason))
    return None


def _name_by_end(ended: ProcessEnd) -> Cause | None:
    """Return the cause if the way in which the process ended is enough to name it, else None."""
    if ended.timed_out:
        message = f"killed at its time limit, after {ended.seconds:.0f} s"
        return Cause(name="timed-out", kind=UNKNOWN, evidence=message, again=True)
    name = _name_signal(ended.signal)
    large = ended.memory and ended.peak_memory >= _OUT_OF_MEMORY * ended.memory
    if name == "SIGKILL" and (ended.oom_kills or large):
        message = f"{name} when it used {ended.peak_memory:,} of {ended.memory:,} bytes of memory"
        if ended.oom_kills:
            message = (
                f"{name}; processes killed by the kernel for lack of memory: {ended.oom_kills}"
            )
        return Cause(name="out-of-memory", kind=UNKNOWN, evidence=message, again=True)
    if name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"):
        return Cause(name="killed", kind=INFRA, evidence=f"killed by {name}", again=True)
    return None


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name if number else ""
    except ValueError:
        return f"signal {number}"


def _name_by_log(log_tail: bytes, ended: ProcessEnd, causes: Causes) -> Cause:
    """Return the cause from the log's last line that matches a rule, else from status or signal."""
    lines = [*_lines(log_tail)]
    name = _name_signal(ended.signal)
    if found := _find(causes, lines[::-1], LOG):
        return replace(found, again=found.again or bool(name))
    if name:
        evidence = f"a binary-checks process was ended by {name}"
        return Cause(name="tool-crashed", kind=TOOL, evidence=evidence, again=True)
    last = lines[-1] if lines else ""
    if ended.exit_status is None:
        return _unknown(last or "it did not start", again=True)
    evidence = _show(last or f"exit status {ended.exit_status} without any output")
    if ended.exit_status == INTERRUPTED:
        return Cause(name="killed", kind=INFRA, evidence=evidence, again=True)
    name, kind = _BY_STATUS.get(ended.exit_status, (UNKNOWN, UNKNOWN))
    return Cause(name=name, kind=kind, evidence=evidence, again=kind == UNKNOWN)


def _lines(log_tail: bytes) -> Iterator[str]:
    """Yield the log's last lines, shortened, without colours, times, and lines about packages."""
    text = log_tail[-_MOST_BYTES:].decode("utf-8", "replace")
    for line in _BREAK.split(text)[-MOST_LINES:]:
        line = _COLOUR.sub("", cut(line, LONGEST_LINE))  # noqa: PLW2901 - it stays the same line
        line = _TIMESTAMP.sub("", line, count=1)  # noqa: PLW2901
        if line.strip() and not _OF_PACKAGE.match(line):
            yield line


def _find(causes: Causes, lines: Sequence[str], source: str) -> Cause | None:
    """Return the cause of the first line that matches a rule, a project's own rules first."""
    for rules in (causes.own, causes.shipped):
        reading = [rule for rule in rules if source in rule.reads]
        for line in (cut(each, LONGEST_LINE) for each in lines):
            for rule in reading:
                if rule.matches(line):
                    again = rule.kind in (INFRA, UNKNOWN)
                    return Cause(name=rule.name, kind=rule.kind, evidence=_show(line), again=again)
    return None


def _unknown(evidence: str, *, again: bool) -> Cause:
    return Cause(name=UNKNOWN, kind=UNKNOWN, evidence=_show(evidence), again=again)


def _show(line: str) -> str:
    return cut(one_line(cut(line.strip(), LONGEST_LINE)), _LONGEST_EVIDENCE)


# Leading checks, as in reports of one run.


def find_leaders(result: RunResult | None) -> list[str]:
    """Return the checks whose errors a report shows, in its order."""
    packages = result.packages if result else ()
    faults = (fault for package in packages for fault in fold(package.entries))
    return [fault.shown.check for fault in faults if fault.level is Level.ERROR]
