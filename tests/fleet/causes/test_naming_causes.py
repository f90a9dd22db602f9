"""Each induced failure gets its cause, and no fault of a package counts as the machine's."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from binary_checks.fleet.causes.cause_rules import load_causes, shipped_causes
from binary_checks.fleet.causes.naming_causes import (
    MOST_LINES,
    Cause,
    name_cause,
)
from binary_checks.fleet.night import ProcessEnd
from binary_checks.model import RunResult
from fixtures.fleet.inducing import list_failures, make, read_record
from fixtures.fleet.lab import NotHere
from fixtures.fleet.short_results import fill_in

FAILURES = list_failures()
KNOWN = [failure for failure in FAILURES if failure.recorded]
GONE = ProcessEnd(exit_status=1)
FULL = b"OSError: [Errno 28] No space left on device\n"


def named(result: RunResult, log: bytes = b"", **ended: Any) -> Cause:
    """The cause of an attempt whose process ended as its result says."""
    return name_cause(result, log, ProcessEnd(exit_status=result.exit_code, **ended))


def told(log: bytes, ended: ProcessEnd = GONE) -> str:
    return name_cause(None, log, ended).name


def document(*entries: dict[str, Any], exit_code: int = 6, **parts: Any) -> RunResult:
    package = {"file_name": "demo-1.0.whl", "entries": [*entries]}
    return fill_in({"exit_code": exit_code, "packages": [package], **parts})


def error(reason: str, outcome: str = "error") -> dict[str, Any]:
    return {"check": "import-fails", "outcome": outcome, "reason": reason}


@pytest.mark.parametrize("failure", KNOWN, ids=lambda failure: failure.name)
def test_a_recorded_failure_is_given_its_cause(failure: Any) -> None:
    left = read_record(failure.name)
    cause = name_cause(left.result, left.log, left.ended)
    assert (cause.name, cause.kind) == (failure.cause, failure.kind)
    assert cause.evidence


@pytest.mark.slow
@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.name)
def test_a_failure_made_now_is_given_its_cause(failure: Any, tmp_path: Path) -> None:
    try:
        left = make(failure.name, tmp_path)
    except NotHere as error:
        pytest.skip(str(error))
    cause = name_cause(left.result, left.log, left.ended)
    assert (cause.name, cause.kind) == (failure.cause, failure.kind)


def test_there_are_at_least_thirty_failures_and_ten_thought_of_afterwards() -> None:
    afterwards = [failure for failure in FAILURES if failure.afterwards]
    assert len(FAILURES) - len(afterwards) >= 30
    assert len(afterwards) >= 10


def test_what_failed_without_the_list_that_may_accept_it_is_not_the_packages_fault() -> None:
    entry = {"check": "missing-library", "outcome": "failed", "problems": [{"sentence": "x"}]}
    said = "known list unavailable: https://example.org/known.toml: answers 500"
    cause = named(document(entry, complaints=[said]))
    assert (cause.name, cause.kind) == ("known-problems-unavailable", "infra")
    assert named(document(entry, exit_code=1, complaints=[said])).name == "missing-library"


def test_a_result_counts_only_where_the_process_ended_by_itself_and_as_it_says() -> None:
    passed = document(exit_code=0)
    assert named(passed, FULL) == Cause()
    killed = name_cause(passed, b"", ProcessEnd(exit_status=None, signal=9))
    assert (killed.name, killed.again) == ("killed", True)
    late = name_cause(passed, b"", ProcessEnd(exit_status=None, signal=9, timed_out=True))
    assert late.name == "timed-out"
    assert name_cause(passed, FULL, ProcessEnd(exit_status=6)).name == "disk-full"
    assert name_cause(None, b"", ProcessEnd(exit_status=None, signal=11)).again
    assert not name_cause(None, b"ERROR: profile x.toml: ", ProcessEnd(exit_status=4)).again


def test_a_result_that_is_not_taken_has_the_cause_of_the_reason_for_that() -> None:
    well = ProcessEnd(exit_status=0)
    other = name_cause(document(exit_code=0), b"", well, reason="other bytes than planned: SHA-256")
    assert (other.name, other.kind, other.again) == ("wrong-hash", "infra", True)
    strange = name_cause(document(exit_code=0), b"", well, reason="about two packages")
    assert strange == Cause(
        name="unknown", kind="unknown", evidence="about two packages", again=True
    )


def test_a_result_names_its_check_whatever_the_log_says() -> None:
    failed = {
        "check": "import-fails",
        "outcome": "failed",
        "problems": [{"path": "", "sentence": "import demo raises OSError: No space left"}],
    }
    cause = named(document(error("the disk is full: x"), failed, exit_code=1), FULL)
    assert cause == Cause(
        name="import-fails",
        kind="product",
        evidence="import-fails: demo-1.0.whl: import demo raises OSError: No space left",
    )


def test_of_several_checks_that_say_one_fault_the_one_that_reports_show_is_named() -> None:
    shared = {"path": "x.so", "cause": "library libq.so.6"}
    load = {**shared, "sentence": "is refused", "consequence": True}
    needs = {**shared, "sentence": "needs libq.so.6"}
    entries = [
        {"check": check, "outcome": "failed", "problems": [problem]}
        for check, problem in (("extension-fails-to-load", load), ("missing-library", needs))
    ]
    found = named(document(*entries, exit_code=1))
    assert (found.name, found.evidence) == (
        "missing-library",
        "missing-library: demo-1.0.whl: x.so: needs libq.so.6",
    )


def test_the_reason_of_an_error_is_read_and_what_the_package_says_in_it_is_not() -> None:
    ours = named(document(error("the disk is full: no room")))
    assert (ours.name, ours.kind, ours.again) == ("disk-full", "infra", True)
    theirs = named(document(error("import demo: OSError: No space left on device")))
    assert (theirs.name, theirs.kind) == ("unknown", "unknown")


def test_a_check_that_broke_is_no_fault_of_the_machine() -> None:
    broken = error("a-check broke: OSError: [Errno 28] No space left on device", "broken")
    cause = named(document(broken, exit_code=3))
    assert (cause.name, cause.kind, cause.again) == ("check-broke", "tool", False)


@pytest.mark.parametrize(
    "line",
    [
        "import-fails: demo-1.0-py3-none-any.whl: import demo raises OSError: [Errno 28] No space",
        "import-fails: demo-1.0.conda: MemoryError",
        "warning: import-slow: demo-1.0.tar.gz: Connection refused",
        "import demo raises ImportError: Connection refused: Could not resolve host",
        "  the disk is full: says the package",
        "demo says: OSError: [Errno 28] No space left on device",
    ],
)
def test_a_line_about_a_package_tells_nothing_of_the_machine(line: str) -> None:
    cause = name_cause(None, line.encode(), GONE)
    assert (cause.name, cause.kind) == ("unknown", "unknown")


@pytest.mark.parametrize("rule", shipped_causes().rules, ids=lambda rule: rule.name)
def test_every_shipped_rule_tells_its_example_and_no_rule_of_infra_its_counter_example(
    rule: Any,
) -> None:
    for source in rule.reads:
        told_by = [
            name_cause(None, line.encode(), GONE)
            if source == "log"
            else named(document(error(line)))
            for line in (rule.example, rule.counter_example)
        ]
        assert told_by[0].name == rule.name
        assert told_by[1].name != rule.name


def test_a_projects_rule_sees_all_lines_first() -> None:
    own = load_causes(
        b'[[causes]]\nname = "quota"\nkind = "tool"\npatterns = ["^quota of the team"]\n'
        b'example = "quota of the team is spent"\ncounter_example = "no quota"\n'
    )
    cause = name_cause(None, b"quota of the team: 3\n" + FULL, GONE, own)
    assert (cause.name, cause.kind, cause.again) == ("quota", "tool", False)


def test_colours_and_times_of_a_build_service_are_no_part_of_a_line() -> None:
    line = (
        b"2026-11-20T03:04:05.1234567Z \x1b[31;1mOSError: [Errno 28] No space left on device\x1b[0m"
    )
    assert told(line) == "disk-full"
    assert told(b"working 10%\rworking 20%\r" + FULL) == "disk-full"


def test_the_last_line_that_tells_something_counts_and_only_the_last_lines_are_read() -> None:
    retried = b"WARNING: Retrying (Retry(total=4)) after: connection refused\n"
    assert told(retried + FULL) == "disk-full"
    assert told(FULL + retried) == "connection-refused"
    assert told(FULL + b"x\n" * (MOST_LINES + 1)) == "unknown"
    assert told(FULL + b"x\n" * (MOST_LINES - 10)) == "disk-full"
    assert told(b"y" * (3 << 20) + b"\n" + FULL) == "disk-full"
    assert told(FULL + b"y" * (1 << 20) + b"\n") == "unknown"


@pytest.mark.parametrize(
    ("ended", "name", "kind", "evidence"),
    [
        (
            ProcessEnd(exit_status=None, signal=9, peak_memory=900, memory=1000),
            "out-of-memory", "unknown", "SIGKILL when it used 900 of 1,000 bytes of memory",
        ),
        (
            ProcessEnd(exit_status=None, signal=9, peak_memory=9, memory=1000, oom_kills=1),
            "out-of-memory", "unknown",
            "SIGKILL; processes killed by the kernel for lack of memory: 1",
        ),
        (
            ProcessEnd(exit_status=None, signal=9, peak_memory=9, memory=1000),
            "killed", "infra", "killed by SIGKILL",
        ),
        (ProcessEnd(exit_status=None, signal=15), "killed", "infra", "killed by SIGTERM"),
        (
            ProcessEnd(exit_status=None, signal=9, timed_out=True, seconds=1800.4),
            "timed-out", "unknown", "killed at its time limit, after 1800 s",
        ),
        (
            ProcessEnd(exit_status=None, signal=11),
            "tool-crashed", "tool", "a binary-checks process was ended by SIGSEGV",
        ),
        (ProcessEnd(exit_status=None), "unknown", "unknown", "it did not start"),
        (ProcessEnd(exit_status=1), "unknown", "unknown", "exit status 1 without any output"),
        (ProcessEnd(exit_status=127), "not-installed", "tool",
         "exit status 127 without any output"),
        (ProcessEnd(exit_status=None, signal=64), "tool-crashed", "tool",
         "a binary-checks process was ended by SIGRTMAX"),
        (ProcessEnd(exit_status=None, signal=99), "tool-crashed", "tool",
         "a binary-checks process was ended by signal 99"),
    ],
)  # fmt: skip
def test_how_a_silent_process_ended_tells_the_cause(
    ended: ProcessEnd, name: str, kind: str, evidence: str
) -> None:
    cause = name_cause(None, b"", ended)
    assert (cause.name, cause.kind, cause.evidence) == (name, kind, evidence)


def test_a_log_of_any_bytes_gives_evidence_that_can_be_shown() -> None:
    noise = random.Random(7).randbytes(50_000)
    for log in (noise, b"\0" * 5_000, b"\x1b[" * 9_000, b"a" * 2_000_000, FULL + noise):
        cause = name_cause(None, log, GONE)
        assert cause.evidence.isprintable()
        assert len(cause.evidence) <= 300


def test_a_hostile_log_keeps_no_shipped_rule_busy() -> None:
    """Each line begins as a pattern does and never ends as it must."""
    beginnings = [
        re.sub(r"[\[\\(^].*", "", pattern.pattern.removeprefix("^"))
        for rule in shipped_causes().rules
        for pattern in rule.patterns
    ]
    lines = [f"{beginning}{'https://a ' * 60}" for beginning in beginnings] * 12
    assert told("\n".join(lines).encode()[-(1 << 20) :]) in {
        "unknown",
        *(rule.name for rule in shipped_causes().rules),
    }
